"""Does a candidate do what the original does? Judged against the original in float64, by its own rounding error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gradwright.doctor.prove.trees import is_real_tensor, tensors
from gradwright.doctor.prove.trial import AFTERWARDS, Outcome, Trial

# Times the rounding of one operation that every entry may differ by, relative to itself and to the largest entry.
OF_ITSELF = 16.0
OF_THE_LARGEST = 64.0
HALF = 1e-4  # the rounding of bfloat16 and float16 is above: their sums may be rounded or kept in float32


@dataclass(frozen=True)
class Difference:
    """The largest difference, relative to the largest entry, and the tolerance for it; ``told`` if it is too large.

    ``what`` differs: it is ``before`` in the original, ``after`` in the candidate.
    """

    error: float = 0.0
    tolerance: float = 0.0
    told: str = ""
    what: str = ""
    before: str = ""
    after: str = ""


@dataclass(frozen=True)
class Manner:
    """How outcomes are compared. ``outputs_only``: the original's gradients are no measure; ``where_finite``: neither
    are those of its gradients that are NaN or infinite; ``outputs_too``: of its outputs neither, unless they are finite
    in float64. ``slack``: times the rounding error that is allowed."""

    outputs_only: bool = False
    where_finite: bool = False
    outputs_too: bool = False
    slack: float = 1.0


def compare(
    original: Outcome, reference: Outcome, candidate: Outcome, trial: Trial, manner: Manner = Manner()
) -> Difference:
    """``reference`` is the original's outcome in float64 (or that of ``original`` again, where it raised there)."""
    if told := _unlike(original, candidate):
        return told
    given = list(tensors(trial.args))
    eps = max([torch.finfo(one.dtype).eps for one in given if is_real_tensor(one)], default=0.0)
    dense = all(one.is_contiguous() for one in given)
    worst = Difference()
    for name, mine in original.outputs.items():
        if name not in candidate.outputs:
            return Difference(told=f"it leaves no {name}")
        theirs = candidate.outputs[name]
        if manner.outputs_too:
            mine = _finite(mine, reference.outputs.get(name, mine), theirs)
        if not trial.strict and _is_number(mine) and _all_equal(theirs, mine):
            continue  # a sum over nothing: 0 here, a tensor in other trials
        worst = _worse(worst, name, compare_values(mine, reference.outputs.get(name, mine), theirs, eps, manner.slack))
        if worst.told:
            return worst
        if dense and _is_contiguous(mine) and not _is_contiguous(theirs):
            name = name.removesuffix(AFTERWARDS)
            return Difference(told=f"{name} is no longer contiguous: its .view(-1) would raise")
    if manner.outputs_only or (trial.special and _lost(original, trial)):
        return worst
    for what, before, exact, after in (
        ("gradient", original.gradients, reference.gradients, candidate.gradients),
        ("second-order gradient", original.second, reference.second, candidate.second),
    ):
        if before is None:
            continue
        found = _gradients(what, before, exact or {}, after or {}, manner)
        if found.told:
            return found
        worst = max(worst, found, key=lambda one: one.error)
    return worst


def _finite(mine: Any, exact: Any, theirs: Any) -> Any:
    """Where a number is not finite and the other's is: what it is in float64, or else the other's."""
    alike = all(is_real_tensor(one) and one.shape == mine.shape for one in (mine, exact, theirs))
    if not alike:
        return mine
    kept = mine.isfinite() | ~theirs.isfinite()
    return torch.where(kept, mine, torch.where(exact.isfinite(), exact.to(mine.dtype), theirs))


def _lost(original: Outcome, trial: Trial) -> bool:
    """Whether gradients are worth nothing: NaN came in and is in an output, or no finite number is in any."""
    outputs = [value for value in original.outputs.values() if is_real_tensor(value) and value.numel()]
    if "NaN" in trial.label:
        return any(bool(value.isnan().any()) for value in outputs)
    return trial.label.endswith("inf") and not any(bool(value.isfinite().any()) for value in outputs)


def _unlike(original: Outcome, candidate: Outcome) -> Difference | None:
    """What else a caller could notice: exceptions, in-place changes, shared memory, random numbers."""
    if candidate.raised:
        raised = candidate.raised
        return Difference(told=f"it raised {raised}; the original does not", after=f"raises {raised}")
    if extra := sorted(candidate.changed - original.changed):
        return Difference(told=f"it changed {', '.join(extra)} in place")
    if missing := sorted(original.changed - candidate.changed):
        return Difference(told=f"it left {', '.join(missing)} as before; the original changes it in place")
    if pairs := sorted(candidate.shares - original.shares):
        one, other = pairs[0]
        return Difference(told=f"{one} shares memory with {other}; the original's does not")
    if pairs := sorted(original.same - candidate.shares):
        one, other = pairs[0]  # of a part (a row) it makes no difference, unless somebody writes to it later
        return Difference(told=f"{one} no longer shares memory with {other}")
    if candidate.chance != original.chance:
        return Difference(told="it draws random numbers in another way")
    return None


def _gradients(
    what: str,
    before: dict[str, Tensor | None],
    exact: dict[str, Tensor | None],
    after: dict[str, Tensor | None],
    manner: Manner,
) -> Difference:
    worst = Difference()
    for name in {**before, **after}:
        mine, theirs = before.get(name), after.get(name)
        if mine is None and (theirs is None or what != "gradient" or not theirs.any()):
            continue  # nothing depends on it here (or it went through .item()): zeros, or more, are no fault
        label = f"the {what} of {name}"
        if mine is not None and theirs is not None and manner.where_finite and mine.shape == theirs.shape:
            mine = torch.where(mine.isfinite(), mine, theirs)
        worst = _worse(worst, label, compare_values(mine, exact.get(name, mine), theirs, slack=manner.slack))
        if worst.told:
            return worst
    return worst


def _worse(worst: Difference, name: str, found: Difference) -> Difference:
    name = name.removesuffix(AFTERWARDS)
    if found.told:
        return Difference(found.error, found.tolerance, f"{name}: {found.told}", name, found.before, found.after)
    return found if found.error > worst.error else worst


def _is_contiguous(value: Any) -> bool:
    return not isinstance(value, Tensor) or value.layout is not torch.strided or value.is_contiguous()


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _all_equal(value: Any, number: float) -> bool:
    if isinstance(value, Tensor):
        return bool((value == number).all())
    return _is_number(value) and value == number


def compare_values(original: Any, reference: Any, candidate: Any, eps: float = 0.0, slack: float = 1.0) -> Difference:
    """``eps``: the rounding that Python's own floats may have, as they may have been numbers of a tensor.

    ``slack``: times the rounding error of its dtype that is allowed.
    """
    if isinstance(original, float) and type(candidate) is type(original):
        mine, theirs = (torch.tensor(value, dtype=torch.float64) for value in (original, candidate))
        exact = torch.tensor(reference, dtype=torch.float64) if isinstance(reference, float) else mine
        return _numbers(mine, exact, theirs, slack * max(eps, torch.finfo(torch.float64).eps))
    if not isinstance(original, Tensor) or not isinstance(candidate, Tensor):
        if type(candidate) is type(original) and _same_thing(original, candidate):
            return Difference()
        return _differ("", _short(original), _short(candidate))
    if original.shape != candidate.shape:
        return _differ("shape ", str(list(original.shape)), str(list(candidate.shape)))
    if original.dtype != candidate.dtype:
        return _differ("", str(original.dtype), str(candidate.dtype))
    if original.layout is not torch.strided or candidate.layout is not torch.strided:
        original, candidate = original.to_dense(), candidate.to_dense()
    if not isinstance(reference, Tensor) or reference.shape != original.shape:
        reference = original
    if original.is_complex():
        wide = (one.to(torch.complex128).resolve_conj() for one in (original, reference, candidate))
        parts = [torch.view_as_real(one) for one in wide]
        return _numbers(parts[0], parts[1], parts[2], slack * torch.finfo(original.dtype).eps)
    own = torch.finfo(original.dtype).eps if original.is_floating_point() else 0.0
    own = slack * (max(own, eps) if own and eps > HALF else own)
    return _numbers(original.double(), reference.to_dense().double(), candidate.double(), own)


def _same_thing(original: Any, candidate: Any) -> bool:
    if original is candidate:
        return True
    try:
        return bool(original == candidate)
    except Exception:  # an array of NumPy's, or whatever a class does when it is compared
        return bool(getattr(original, "tobytes", object)() == getattr(candidate, "tobytes", object)())


def _differ(kind: str, before: str, after: str) -> Difference:
    return Difference(told=f"returned {kind}{after}, expected {before}", before=kind + before, after=kind + after)


def _numbers(original: Tensor, reference: Tensor, candidate: Tensor, eps: float) -> Difference:
    if original.numel() == 0:
        return Difference()
    finite = original.isfinite()
    same_elsewhere = (candidate == original) | (candidate.isnan() & original.isnan())
    # Where the original overflows and float64 does not, the candidate may be nearer to what is right.
    same_elsewhere |= reference.isfinite() & (candidate - reference).abs().le(OF_THE_LARGEST * eps * reference.abs())
    other = torch.where(finite, ~candidate.isfinite(), ~same_elsewhere)
    if bool(other.any()):
        return _at(other.nonzero()[0].tolist(), original, candidate)
    exact = torch.where(finite & reference.isfinite(), reference, original)
    zero = torch.zeros_like(original)
    rounding = torch.where(finite, (original - exact).abs(), zero)
    apart = torch.where(finite, (candidate - exact).abs(), zero)
    size = torch.where(finite, exact.abs(), zero)
    largest = float(size.max())
    of_all = OF_THE_LARGEST * eps * largest + 4 * float(rounding.max())
    allowed = torch.maximum(OF_ITSELF * eps * size + 4 * rounding, torch.full_like(size, of_all))
    excess = apart - allowed
    scale = largest or 1.0
    error, tolerance = float(apart.max()) / scale, of_all / scale
    if bool((excess > 0).any()):
        told = _at(_place(int(excess.argmax()), excess.shape), original, candidate)
        return Difference(error, tolerance, told.told, "", told.before, told.after)
    return Difference(error, tolerance)


def _place(index: int, shape: torch.Size) -> list[int]:
    return [int(one) for one in torch.unravel_index(torch.tensor(index, device="cpu"), shape)]


def _at(place: list[int], original: Tensor, candidate: Tensor) -> Difference:
    before, after = (f"{one[tuple(place)].item():.6g}" for one in (original, candidate))
    return Difference(told=f"at {place} returned {after}, expected {before}", before=before, after=after)


def _short(value: Any) -> str:
    return f"a tensor {list(value.shape)}" if isinstance(value, Tensor) else repr(value)[:60]


# --- bit by bit ------------------------------------------------------------------------------------------------------


def equal(original: Outcome, one: Outcome, other: Outcome) -> bool:
    """The same numbers, bit by bit, but for the sign of zero and of NaN, wherever the original has a number."""
    if (one.raised, one.changed, one.chance, one.shares) != (other.raised, other.changed, other.chance, other.shares):
        return False
    second = {name for name, value in (original.second or {}).items() if value is not None}
    if second and bool(one.second) != bool(other.second):
        return False
    pairs = [(one.outputs, other.outputs), (one.gradients, other.gradients)]
    mine, theirs = one.second or {}, other.second or {}
    pairs.append(({n: mine.get(n) for n in second}, {n: theirs.get(n) for n in second}))
    return all(a.keys() == b.keys() and all(_same(a[name], b[name]) for name in a) for a, b in pairs)


def alike(original: Outcome, one: Outcome, other: Outcome) -> bool:
    """The same numbers but for 1e-11, wherever the original has a number: what is 0 but for rounding (the gradient that
    goes through the maximum of a softmax) has no size that differences could be measured by."""
    if (one.raised, one.changed, one.chance, one.shares) != (other.raised, other.changed, other.chance, other.shares):
        return False
    pairs = [(one.outputs, other.outputs), (one.gradients, other.gradients)]
    second = [name for name, value in (original.second or {}).items() if value is not None]
    mine, theirs = one.second or {}, other.second or {}
    pairs.append(({name: mine.get(name) for name in second}, {name: theirs.get(name) for name in second}))
    return all(a.keys() == b.keys() and all(_near(a[name], b[name]) for name in a) for a, b in pairs)


def _near(one: Any, other: Any) -> bool:
    if not isinstance(one, Tensor) or not isinstance(other, Tensor) or not one.is_floating_point():
        return _same(one, other)
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.allclose(one, other, rtol=1e-11, atol=1e-11, equal_nan=True)


def _same(one: Any, other: Any) -> bool:
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return type(one) is type(other) and (_same_thing(one, other) or (one != one and other != other))
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return bool(((one == other) | (one.isnan() & other.isnan())).all())
