"""What a prediction gets right and wrong, as sums for each class c over all positions of a batch:

    true positives  TP = sum p t,        false positives FP = sum p (1 - t),        false negatives FN = sum (1 - p) t

with p the probability (sigmoid or softmax of the logits z, or the input itself), t the target. TP + FP is what was
predicted, TP + FN what is true. None is a difference of larger numbers: 1 - p is sigmoid(-z), or the sum of the other
classes' probabilities, so errors are known to their last digits however few they are. Beside them, where asked for,

    cross entropy   CE = sum -w1 t log p - w0 (1 - t) log (1 - p),   of classes: sum over rows of the class -log p,
    count            N = how many positions count

A loss L of them has dL/dp = a + b t with a = dL/dFP, b = dL/dTP - dL/dFP - dL/dFN, and g = dL/dCE beside it:

    sigmoid: dL/dz = (a + b t) s(z) s(-z) + g (w0 (1 - t) s(z) - w1 t s(-z))
    softmax: dL/dz_k = p_k (e_k - sum_j p_j e_j) + g_y (p_k - [k = y]),    e_k = a_k + [k = y] b_k - d

with any number d; that of the likeliest class leaves no difference of numbers near one another where p is near 1.
The sums are float64: they overflow in no dtype (smp issue 463: NaN from 262,144 pixels of float16 on).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, NamedTuple, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

from gradwright.kernels.calls.messages import refusal, told
from gradwright.kernels.formula.stages import Axes, RowProgram, Way, row_program
from gradwright.losses.common.additive import require_broadcast
from gradwright.losses.common.arguments import refuse_values, require_real, require_same_shape
from gradwright.losses.common.classes import refuse_class, require_classes
from gradwright.losses.segmentation.modes import NO_CLASS, Mode

# By how much a probability may miss 0 and 1: what is interpolated does so by roundings.
_LOOSE = 1e-4
_LEAST_LOG = -100.0  # as torch.nn.functional.binary_cross_entropy has it
_LEAST = 1e-12


class Kernels(NamedTuple):
    """The program of the sums (of which the last result is how many rows have a fault, where it ``has_faults``), and
    that of the gradients, which reads a, b (and g) for each class beside the same inputs."""

    sums: RowProgram
    gradients: RowProgram
    has_faults: bool


class Arguments(NamedTuple):
    """A call, checked. ``each``: of the prediction, the sums before they are summed, [sums, *shape], by plain torch.
    ``look``: raises, if the arguments have a fault. ``mask``: of rows. ``kernels``: made when they are wanted, as
    torch.compile can't trace the making."""

    input: Tensor
    operands: Mapping[str, Any]
    kernels: Callable[[], Kernels]
    each: Callable[[Tensor], Tensor]
    look: Callable[[], None]
    mask: Tensor | None
    dim: int


def arguments_of(
    where: str,
    input: Tensor,
    target: Tensor,
    mode: Mode,
    from_logits: bool,
    mask: Tensor | None,
    ignore_index: int | None,
    entropy: tuple[float, float] | None = None,
) -> Arguments:
    """Shapes: mode "binary": ``input`` and ``target`` alike (or one with an axis 1 of length 1); "multilabel":
    [N, C, *] both; "multiclass": [N, C, *] and class numbers [N, *]. ``mask`` (bool): which positions count, broadcast
    to [N, *] ("binary": to the input). A target of ``ignore_index`` does not count. ``entropy``: w1 and w0, where CE
    and N are wanted. Raises: UsageError.
    """
    if mode not in get_args(Mode):
        raise refusal(f"mode is {mode!r}", where=where, do='"binary", "multiclass" or "multilabel"')
    require_real(where, input=input)
    if not isinstance(target, Tensor) or target.is_complex():
        raise refusal(f"target is {told(target)}", where=where, do="hand over a tensor of labels")
    if mode != "binary" and input.ndim < 2:
        raise refusal(f"input is {told(input)}", where=where, why=f"of mode {mode!r} it is [N, C, *]", do="check it")
    if mode != "binary" and not input.shape[1]:
        raise refusal(f"input is {told(input)}: it has no classes", where=f"{where}, axis 1", do="check its shape")
    if mode == "multiclass":
        require_classes(where, input, target, 1)
        return _of_classes(where, input, target, from_logits, mask, ignore_index, entropy is not None)
    target = beside(input, target) if mode == "binary" else target
    require_same_shape(where, input=input, target=target)
    dim = 1
    if mode == "binary":  # one class, to which every element belongs
        input, target, dim = input.unsqueeze(0), target.unsqueeze(0), 0
    return _of_labels(where, input, target, dim, from_logits, mask, ignore_index, entropy)


def beside(input: Tensor, target: Tensor) -> Tensor:
    """A binary target with the input's axes, where one of them has an axis 1 of length 1 and the other has none."""
    if target.ndim == input.ndim - 1 and input.shape[1:2] == (1,):
        return target.unsqueeze(1)
    if target.ndim == input.ndim + 1 and target.shape[1:2] == (1,):
        return target.squeeze(1)
    return target


def mask_of_rows(where: str, mask: Tensor | None, rows: Tensor) -> Tensor | None:
    if mask is None:
        return None
    require_broadcast(where, "mask", mask, rows)
    return mask.expand(rows.shape)


def _of_labels(
    where: str,
    input: Tensor,
    target: Tensor,
    dim: int,
    from_logits: bool,
    mask: Tensor | None,
    ignore_index: int | None,
    entropy: tuple[float, float] | None,
) -> Arguments:
    ignored = NO_CLASS if ignore_index is None else ignore_index
    rows = mask_of_rows(where, mask, input.select(dim, 0) if input.shape[dim] else input.sum(dim))

    def each(z: Tensor) -> Tensor:
        t = target.to(z.dtype)
        p, q = (z.sigmoid(), (-z).sigmoid()) if from_logits else (z, 1 - z)
        sums = [p * t, p * (1 - t), q * t]
        if entropy:
            if from_logits:
                positive, negative = F.softplus(-z), F.softplus(z)
            else:
                positive, negative = -_log(z), -_log(1 - z)
            sums += [entropy[0] * t * positive + entropy[1] * (1 - t) * negative, torch.ones_like(p)]
        return torch.where(target == ignored, 0.0, torch.stack(sums))

    def look() -> None:
        values = target.detach()
        bad = ~((values >= 0) & (values <= 1)) & (values != ignored)
        out = _not_probabilities(input) & (values != ignored) if not from_logits else torch.zeros_like(bad)
        if rows is not None:
            bad, out = bad & rows.unsqueeze(dim), out & rows.unsqueeze(dim)
        given = input.detach()
        if dim == 0:
            bad, values, out, given = bad.squeeze(0), values.squeeze(0), out.squeeze(0), given.squeeze(0)
        do = "labels are 0 or 1, or between; those to leave out are ignore_index"
        refuse_values(
            where,
            {
                "target": ("is not from 0 to 1", values.double(), bad, do),
                "input": ("is not from 0 to 1", given, out, "if it is logits, from_logits=True"),
            },
        )

    operands: dict[str, Any] = {"z": input, "t": target, "ignored": float(ignored)}
    if entropy:
        operands |= {"w1": float(entropy[0]), "w0": float(entropy[1])}
    kernels = partial(_kernels_of_labels, from_logits, entropy is not None, mask is not None, ignore_index is not None)
    return Arguments(input, operands, kernels, each, look, rows, dim)


def _of_classes(
    where: str,
    input: Tensor,
    target: Tensor,
    from_logits: bool,
    mask: Tensor | None,
    ignore_index: int | None,
    has_entropy: bool,
) -> Arguments:
    ignored = NO_CLASS if ignore_index is None else ignore_index
    rows = mask_of_rows(where, mask, target)
    classes = input.shape[1]

    def each(z: Tensor) -> Tensor:
        numbers = torch.arange(classes, device=z.device).view(-1, *[1] * (z.ndim - 2))
        t = target.unsqueeze(1) == numbers
        p = z.softmax(1) if from_logits else z
        wrong = torch.where(t, 0.0, p)
        q = wrong.sum(1, keepdim=True) if from_logits else 1 - z
        sums = [torch.where(t, p, 0.0), wrong, torch.where(t, q, 0.0)]
        if has_entropy:
            log = z.log_softmax(1) if from_logits else _log(z)
            sums += [torch.where(t, -log, 0.0), torch.ones_like(p)]
        return torch.where((target == ignored).unsqueeze(1), 0.0, torch.stack(sums))

    def look() -> None:
        refuse_class(where, target, classes, None if ignore_index is None else ignored, rows)
        if not from_logits:
            out = _not_probabilities(input) & (target != ignored).unsqueeze(1)
            if rows is not None:
                out = out & rows.unsqueeze(1)
            do = "if it is logits, from_logits=True"
            refuse_values(where, {"input": ("is not from 0 to 1", input.detach(), out, do)})

    operands: dict[str, Any] = {"z": input, "y": target, "ignored": float(ignored), "classes": float(classes)}
    kernels = partial(_kernels_of_classes, from_logits, has_entropy, mask is not None, ignore_index is not None)
    return Arguments(input, operands, kernels, each, look, rows, 1)


def _log(p: Tensor) -> Tensor:
    """Not below ``_LEAST_LOG``, with torch's slope for probabilities of 0: that of ``_LEAST``."""
    log = p.detach().log().clamp_min(_LEAST_LOG).nan_to_num(nan=_LEAST_LOG)
    near = torch.where(p < _LEAST, _LEAST, p)
    # The value of ``log``; its derivatives, of any order, are those of log(near), with p's own slope below ``_LEAST``.
    linear = p / _LEAST
    bent = torch.where(p < _LEAST, linear, near.log())
    return log + (bent - bent.detach())


def _not_probabilities(input: Tensor) -> Tensor:
    values = input.detach()
    return (values < -_LOOSE) | (values > 1 + _LOOSE)


_PROBABLE = f"z >= -{_LOOSE} and z <= {1 + _LOOSE}"
_LOG_OF = f"where({{0}} > 1e-37, log({{0}}), {_LEAST_LOG})"

# sigmoid of |z| and of -|z|, by one exponential and one division for both.
_LARGE = "(1 / (1 + exp(-abs(z))))"
_SMALL = f"(exp(-abs(z)) * {_LARGE})"


class _Texts(NamedTuple):
    """What ``_kernels`` makes programs of: ``fault`` of a row, where the sums alone do not tell."""

    inputs: dict[str, Axes]
    stages: dict[str, str]
    sums: list[str]
    gradient: str
    fault: str = ""


@cache
def _kernels_of_labels(from_logits: bool, has_entropy: bool, is_masked: bool, ignores: bool) -> Kernels:
    p, q = f"where(z < 0, {_SMALL}, {_LARGE})", f"where(z < 0, {_LARGE}, {_SMALL})"
    predicted = p
    gradient = f"(a + b * t) * ({_LARGE} * {_SMALL})"
    if not from_logits:
        p, q, predicted, gradient = "z", "(1 - z)", f"where({_PROBABLE}, z, nan)", "a + b * t"
    sums = [f"{p} * t", f"{predicted} * (1 - t)", f"{q} * where(t >= 0 and t <= 1, t, nan)"]
    inputs: dict[str, Axes] = {"z": "element", "t": "element"}
    if has_entropy:
        inputs |= {"w1": "number", "w0": "number"}
        if from_logits:
            least = "softplus(-abs(z))"
            sums.append(f"w1 * t * ({least} + max(-z, 0)) + w0 * (1 - t) * ({least} + max(z, 0))")
            slope = f"w0 * (1 - t) * {p} - w1 * t * {q}"
        else:
            sums.append(f"-w1 * t * {_LOG_OF.format('z')} - w0 * (1 - t) * {_LOG_OF.format('(1 - z)')}")
            slope = f"w0 * (1 - t) / max(1 - z, {_LEAST}) - w1 * t / max(z, {_LEAST})"
        sums.append("1")
        gradient += f" + g * ({slope})"
    return _kernels(_Texts(inputs, {}, sums, gradient), "t == ignored" if ignores else "", is_masked)


@cache
def _kernels_of_classes(from_logits: bool, has_entropy: bool, is_masked: bool, ignores: bool) -> Kernels:
    stages: dict[str, str] = {}
    if from_logits:
        p, d = "(exp(z - m) * inverse)", "(a + where(k == y, b, 0))"
        stages = {
            "m": "max: z",
            "s": "sum: exp(z - m)",
            "others": "sum: where(k == y, 0, exp(z - m))",
            "inverse": "row: 1 / s",
            "missed": "row: others * inverse",
            # Where the class is the likeliest, s = 1 + others.
            "zy": "at y: z - m",
            "entropy": "row: where(zy == 0, log1p(others), log(s) - zy)",
            # Where two are the likeliest, it is another number, which changes nothing.
            "likeliest": f"sum: where(z == m, {d}, 0)",
            "mean": f"sum: {p} * ({d} - likeliest)",
            "gy": "at y: g",
        }
        sums = [f"where(k == y, {p}, 0)", f"where(k == y, 0, {p})", "where(k == y, missed, 0)"]
        gradient = f"{p} * ({d} - likeliest - mean)"
        entropy, slope = "entropy", f" + gy * where(k == y, -missed, {p})"
    else:
        sums = ["where(k == y, z, 0)", f"where(k == y, 0, where({_PROBABLE}, z, nan))", "where(k == y, 1 - z, 0)"]
        gradient = "a + where(k == y, b, 0)"
        entropy, slope = f"-{_LOG_OF.format('z')}", f" - where(k == y, g / max(z, {_LEAST}), 0)"
    if has_entropy:
        sums += [f"where(k == y, {entropy}, 0)", "1"]
        gradient += slope
    inputs: dict[str, Axes] = {"z": "element", "y": "row", "classes": "number"}
    texts = _Texts(inputs, stages, sums, gradient, "y < 0 or y >= classes")
    return _kernels(texts, "y == ignored" if ignores else "", is_masked)


def _kernels(of: _Texts, ignored: str, is_masked: bool) -> Kernels:
    inputs: dict[str, Axes] = {**of.inputs}
    if ignored:
        inputs["ignored"] = "number"
    if is_masked:
        inputs["mask"] = "row"
    left_out = " or ".join([*(["mask == 0"] if is_masked else []), *([ignored] if ignored else [])])

    def counted(text: str) -> str:
        return f"where({left_out}, 0, {text})" if left_out else text

    more: dict[str, Axes] = {"a": "class", "b": "class", **({"g": "class"} if len(of.sums) > 3 else {})}
    ways: list[tuple[Way, str]] = [("class", counted(text)) for text in of.sums]
    if of.fault:
        ways.append(("total", counted(f"where({of.fault}, 1, 0)")))
    sums = row_program(inputs, of.stages, ways)
    return Kernels(
        sums, row_program({**inputs, **more}, of.stages, [("element", counted(of.gradient))]), bool(of.fault)
    )
