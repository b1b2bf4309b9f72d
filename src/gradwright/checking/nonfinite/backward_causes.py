"""Why a node of the backward returned a NaN or an inf though what arrived was finite."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gradwright.checking.nonfinite.forward_causes import EXPLODED
from gradwright.checking.nonfinite.looks import HALVES, first_entry, largest, value_at, word
from gradwright.checking.nonfinite.origins import Cause
from gradwright.ground.torch_versions.nodes import read_saved, saved_names

_NAMES = {"self": "operand", "other": "second operand", "result": "result", "exponent": "exponent"}

# Where a derivative is infinite or undefined, by the values that the node has saved: (name, value, in words).
_Edge = tuple[str, float, str]
_EDGES: dict[str, tuple[_Edge, ...]] = {
    "Sqrt": (("result", 0.0, "the slope of sqrt, 1 / (2 sqrt(x)), is infinite at 0"),),
    "Rsqrt": (("result", math.inf, "rsqrt has no slope at 0"),),
    "Log": (("self", 0.0, "the slope of log, 1 / x, is infinite at 0"),),
    "Log2": (("self", 0.0, "the slope of log2 is infinite at 0"),),
    "Log10": (("self", 0.0, "the slope of log10 is infinite at 0"),),
    "Log1P": (("self", -1.0, "the slope of log1p is infinite at -1"),),
    "Pow": (("self", 0.0, "the slope of a power below 1 is infinite at 0"),),
    "Div": (("other", 0.0, "the slope of a quotient is infinite where the divisor is 0"),),
    "Reciprocal": (("result", math.inf, "1 / x has no slope at 0"),),
    "Acos": (
        ("self", 1.0, "the slope of acos is infinite at 1"),
        ("self", -1.0, "the slope of acos is infinite at -1"),
    ),
    "Asin": (
        ("self", 1.0, "the slope of asin is infinite at 1"),
        ("self", -1.0, "the slope of asin is infinite at -1"),
    ),
    "Acosh": (("self", 1.0, "the slope of acosh is infinite at 1"),),
    "Atanh": (("self", 1.0, "the slope of atanh is infinite at 1"), ("self", -1.0, "that of atanh is infinite at -1")),
    "Erfinv": (
        ("self", 1.0, "the slope of erfinv is infinite at 1"),
        ("self", -1.0, "that of erfinv is infinite at -1"),
    ),
    "Norm": (("result", 0.0, "a norm has no slope at 0"),),
    "LinalgVectorNorm": (("result", 0.0, "this norm has no finite slope at 0"),),
    "Std": (("result", 0.0, "the slope of std is infinite where all values are equal"),),
    "StdMean": (("result0", 0.0, "the slope of std is infinite where all values are equal"),),
    "Cdist": (("cdist", 0.0, "this distance has no slope where two points coincide"),),
    "Atan2": (("self", 0.0, "atan2 has no slope at (0, 0)"),),
    "Xlogy": (("other", 0.0, "the slope of xlogy is infinite at 0"),),
    "Logit": (
        ("self", 0.0, "the slope of logit is infinite at 0"),
        ("self", 1.0, "the slope of logit is infinite at 1"),
    ),
    "Prod": (("result", 0.0, "the slope of a product was taken as product / factor"),),
    "Cumprod": (("self", 0.0, "the slope of cumprod was taken as product / factor"),),
}
# Each entry of what they return is a product of the entry that arrives and a slope.
_ENTRYWISE = frozenset({"Mul", "Exp", "Expm1", "Sin", "Cos", "Tan", "Sigmoid", "Tanh", "Abs", "Where", "Softplus"})
_REDUCTIONS = frozenset({"Norm", "LinalgVectorNorm", "Std", "StdMean", "Cdist", "Prod", "Cumprod"})
_SPECTRAL = ("LinalgSvd", "LinalgEigh", "LinalgEig", "SvdHelper", "LinalgQr")

HINT_WHERE = "guard the operand too: torch.where(ok, f(torch.where(ok, x, 1)), other)"
_HINT_ROOT = "write a norm as torch.linalg.vector_norm, whose gradient at 0 is 0, or add a small number inside the root"
_HINT_EDGE = "keep the operand away from there: clamp it, add a small number, or choose another value with torch.where"


def backward_cause(
    node: Any, arrived: Sequence[Tensor | None], returned: Tensor, discarded: Callable[[], str]
) -> tuple[Cause, tuple[int, ...], tuple[tuple[str, float], ...], float | None]:
    """The cause, the entry of the returned gradient, values saved there, the gradient that arrived there.

    ``discarded()``: what further on takes nothing of the value, in words.
    """
    name = short_name(node)
    kept = saved(node)
    entry = first_entry(returned)
    upstream = next((one for one in arrived if one is not None), None)
    shape: Sequence[int] = upstream.shape if upstream is not None else returned.shape
    at = entry if tuple(shape) == tuple(returned.shape) else None
    edge = _edge(name, kept, at, shape)
    if edge is not None and at is None:
        at = edge[1]
    there = _there(kept, at, shape)
    cotangent = value_at(upstream, at, shape) if upstream is not None and at is not None else None
    if cotangent is None and upstream is not None and upstream.numel() == 1:
        cotangent = float(upstream)
    words = edge[0] if edge is not None else ""
    entrywise = name in _ENTRYWISE or (name in _EDGES and name not in _REDUCTIONS)
    infinite = next((key for key, value in there if not math.isfinite(value)), "")
    if cotangent == 0 and (words or infinite or (at == entry and entrywise)):
        what = words or (
            f"its {infinite} is not finite there" if infinite else f"the slope of {name.lower()} is not finite"
        )
        why = f"The gradient that arrives there is exactly 0{discarded()}, but {what}, and 0 * inf is NaN"
        return Cause("where-nan", why, (HINT_WHERE,), at), entry, there, cotangent
    if words:
        hints = (_HINT_ROOT,) if name in ("Sqrt", "Pow", "Norm") else (_HINT_EDGE,)
        kind = "normalize-at-zero" if name == "Div" and _is_norm(node) else "boundary"
        return Cause(kind, f"{words[0].upper()}{words[1:]}", hints, at), entry, there, cotangent  # type: ignore[arg-type]  # a literal of two
    return _of_size(name, kept, arrived, returned), entry, there, cotangent


def short_name(node: Any) -> str:
    """``SqrtBackward0`` is ``Sqrt``."""
    return re.sub(r"Backward\d*$", "", str(node.name()).rsplit("::", 1)[-1])


def saved(node: Any) -> dict[str, Any]:
    """Tensors and numbers that a node has saved, by name; those that were changed in place since are left out."""
    found = {}
    for name in saved_names(node):
        try:
            value = read_saved(node, name)
        except Exception:  # changed in place, freed: autograd tells it itself
            continue
        if isinstance(value, (Tensor, int, float)):
            found[name] = value
    if not found:
        try:
            own = getattr(node, "saved_tensors", ())
        except Exception:
            own = ()
        found = {f"saved {place}": value for place, value in enumerate(own) if isinstance(value, Tensor)}
    return found


def _edge(
    name: str, kept: dict[str, Any], at: tuple[int, ...] | None, shape: Sequence[int]
) -> tuple[str, tuple[int, ...] | None] | None:
    """The edge of its domain that an operand lies on, at the entry or (where it is not known which) anywhere."""
    for key, edge, words in _EDGES.get(name, ()):
        value = kept.get(key)
        if name == "Pow" and isinstance(kept.get("exponent"), (int, float)) and kept["exponent"] >= 1:
            continue
        if isinstance(value, Tensor) and value.is_complex():
            continue
        here = value_at(value, at, shape) if at is not None and value is not None else None
        if here is not None:
            if here == edge:
                return words, at
            continue
        if isinstance(value, Tensor):
            hit = value.detach() == edge
            if bool(hit.any()):
                where = tuple(int(one) for one in hit.nonzero()[0]) if hit.shape == tuple(shape) else None
                return words, where
    return None


def _there(kept: dict[str, Any], at: tuple[int, ...] | None, shape: Sequence[int]) -> tuple[tuple[str, float], ...]:
    if at is None:
        return ()
    found = []
    for key, value in kept.items():
        if key.endswith(("_sizes", "dim", "keepdim")) or isinstance(value, bool):
            continue
        here = value_at(value, at, shape)
        if here is not None:
            found.append((_NAMES.get(key, key), here))
    return tuple(found[:4])


def _of_size(name: str, kept: dict[str, Any], arrived: Sequence[Tensor | None], returned: Tensor) -> Cause:
    upstream = max((largest(one) for one in arrived if one is not None), default=0.0)
    most = max([upstream, *(largest(value) for value in kept.values() if isinstance(value, Tensor))])
    dtype = str(returned.dtype).removeprefix("torch.")
    top = torch.finfo(returned.dtype).max
    if name.startswith(_SPECTRAL):
        why = "Its derivative divides by differences of singular values or eigenvalues, and two of them are equal"
        return Cause("boundary", why, ("add a small diagonal, or use what depends on the values alone",))
    if returned.dtype in HALVES and most < EXPLODED:
        why = f"{dtype} ends at {word(top)}: gradients up to {word(upstream)} and values up to {word(most)} meet here"
        hints = ("scale the loss by torch.amp.GradScaler, which backs off by itself, or compute this in float32",)
        return Cause("half-overflow", why, hints)
    if most > EXPLODED:
        what = (
            f"gradients had already grown to {word(upstream)}" if upstream > EXPLODED else f"values reach {word(most)}"
        )
        hints = ("it diverged before: a smaller learning rate, gradient clipping, or a fault that lets the loss grow",)
        if name == "Exp":
            return Cause("exp-overflow", f"{what[0].upper()}{what[1:]}: the exponential is about to overflow", hints)
        return Cause("explosion", f"{what[0].upper()}{what[1:]}, and the product is beyond {word(top)}", hints)
    return Cause("unknown", f"What arrives is finite (up to {word(upstream)}), what it returns is not")


def _is_norm(node: Any) -> bool:
    follows = [one.name() for one, _ in node.next_functions if one is not None]
    return any(name.startswith(("Norm", "LinalgVectorNorm")) for name in follows)
