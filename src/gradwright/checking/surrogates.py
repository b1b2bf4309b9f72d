"""Gradients that are not meant to be the derivative: a zero derivative replaced, a forward that changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from gradwright.checking.context import is_function
from gradwright.checking.evidence import Point
from gradwright.checking.oracles.differences import moved_share, slope
from gradwright.checking.oracles.reverse import StraightThrough, Unstopped, plain_gradient
from gradwright.checking.trial import DOUBLE, TimeUp


def is_identity(point: Point, index: int) -> bool:
    """Is every output that moves with this input the input itself (up to its shape), here and elsewhere?

    Elsewhere too, because relu is the identity on a positive specimen. Cost: 3 calls.
    """
    trial = point.trial
    here = trial.inputs[index]
    kick = 3 * point.random_direction(index)
    for shift in (torch.zeros_like(here), -2 * here, kick):
        try:
            outputs = trial.evaluate(index, shift)
        except TimeUp:
            raise
        except Exception:  # the forward may refuse inputs that it was never meant for
            return False
        same = [output.shape == here.shape and torch.equal(output, here + shift) for output in outputs]
        others = zip(outputs, trial.values, same, strict=True)
        if not any(same) or any(not equal and not torch.equal(out, value) for out, value, equal in others):
            return False
    return True


def is_piecewise_constant(point: Point, index: int) -> bool:
    """Do the outputs stay what they are when this input moves a little, and jump when it moves enough?

    Mirrored as well, because relu is constant on a negative specimen. Cost: 2 to 8 calls.
    """
    trial = point.trial
    tiny, coarse = (1e-6, 1e-2) if trial.precision is DOUBLE else (1e-3, 1e-1)
    if trial.precision.eps > 1e-3:
        tiny, coarse = 0.25, 1.0  # smaller steps are lost in bfloat16
    direction = point.random_direction(index)
    share = moved_share(trial, index, direction, tiny)
    if share > 0:
        if share <= 0.05 and moved_share(trial, index, direction, coarse) >= 5 * share:
            return True
        plain = None if point.plain is None else point.plain[index]
        flat_to_autograd = plain is not None and not bool(plain.any())
        return flat_to_autograd and trial.precision is DOUBLE and moved_share(trial, index, direction, 1e-9) == 0
    mirror = -2 * trial.inputs[index]
    try:
        here = trial.evaluate(index, mirror)
        there = trial.evaluate(index, mirror + tiny * direction)
    except TimeUp:
        raise
    except Exception:  # the forward may refuse inputs that it was never meant for
        return True
    moved = sum(int((a != b).sum()) for a, b in zip(here, there, strict=True) if a.shape == b.shape)
    return moved <= 0.05 * max(sum(value.numel() for value in here), 1)


def passes_rounding(point: Point, index: int) -> str:
    """The rounding operations in the forward through which the backward lets gradients pass; "" if it does not."""
    if not is_function(point.trial.subject):
        return ""
    mode = StraightThrough()
    straight = plain_gradient(point.trial, mode)
    if straight is None or not mode.seen or not point.agrees(index, straight[index]):
        return ""
    return ", ".join(sorted(mode.seen))


def held_back(point: Point, index: int) -> str:
    """How a callable holds gradients back (``detach``, ``no_grad``), where without it they would be the derivative.

    "" otherwise, and for a Function, whose backward has to answer for the whole forward. Cost: one gradient, 4 calls.
    """
    if is_function(point.trial.subject):
        return ""
    mode = Unstopped()
    try:
        passed = point.trial.gradient_under(mode)[index]
    except TimeUp:
        raise
    except Exception:  # the subject is someone else's code, run in a way its author did not foresee
        return ""
    if not mode.seen or point.agrees(index, passed):
        return ""
    direction = point.random_direction(index)
    goal = point.trial.precision.differences * float(passed.abs().max()) * float(direction.norm())
    found = slope(point.trial, index, direction, goal)
    apart = abs(found.value - float(passed @ direction))
    return ", ".join(sorted(mode.seen)) if apart <= goal + 5 * found.error and not found.kinked else ""


def jumps(point: Point, index: int) -> str:
    """The rounding operations in the forward, where they make it jump; "" where it is continuous for all we see."""
    if not is_function(point.trial.subject):
        return ""
    mode = StraightThrough()
    plain_gradient(point.trial, mode)
    if mode.seen - {"sign", "sgn", "heaviside"}:
        return ", ".join(sorted(mode.seen))
    if mode.seen:
        trial, zero = point.trial, -point.trial.inputs[index]
        hair = 1e-6 * trial.entry_scale(index)
        try:
            above, below = trial.evaluate(index, zero + hair), trial.evaluate(index, zero - hair)
        except TimeUp:
            raise
        except Exception:  # the forward may refuse inputs that it was never meant for
            return ""
        if any(float((a - b).abs().max()) > 1e-3 * float(a.abs().max()) for a, b in zip(above, below, strict=True)):
            return ", ".join(sorted(mode.seen))
    return ""


def is_torn(point: Point, index: int) -> str:
    """Does the forward jump at this very input, so that there is no derivative here? In words; "" if it does not.

    A time of the first spike, out of zeros and ones. Few outputs that jump (a threshold met by chance) are no matter:
    the others have a derivative. Cost: 4 calls.
    """
    trial = point.trial
    direction = point.random_direction(index)
    least, tiny = (1e-3, (1e-8, 1e-9)) if trial.precision is DOUBLE else (3e-2, (1e-4, 1e-5))
    for hair in tiny:
        jumped = torch.zeros(sum(value.numel() for value in trial.values), dtype=torch.bool, device="cpu")
        here = torch.cat(trial.values)
        for shift in (hair * direction, -hair * direction):
            moved = trial.evaluate(index, shift)
            if any(a.shape != b.shape for a, b in zip(moved, trial.values, strict=True)):
                return ""
            jumped |= (torch.cat(moved) - here).abs() > least * float(here.abs().max())
        if int(jumped.sum()) <= 0.05 * jumped.numel():
            return ""
    return "the forward jumps at this very input, so there is no derivative to compare with"


_FACTORISATIONS = {
    "linalg_svd": "svd", "svd": "svd", "svd_lowrank": "svd", "linalg_eigh": "eigh", "linalg_eig": "eig",
    "linalg_qr": "qr", "qr": "qr", "lobpcg": "lobpcg",
}  # fmt: skip


class _Factorising(TorchFunctionMode):
    """Notes which matrix factorisations run: their factors are unique only up to a sign, a rotation, a basis."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if known := _FACTORISATIONS.get(getattr(func, "__name__", "")):
            self.seen.add(known)
        return func(*args, **(kwargs or {}))


def factorisations(point: Point) -> str:
    """The matrix factorisations that the forward calls; "" if it calls none. Cost: 1 call."""
    mode = _Factorising()
    with mode:
        point.trial.evaluate()
    return ", ".join(sorted(mode.seen))


def only_as_used(point: Point, index: int, received: Sequence[torch.Tensor | None] | None) -> str:
    """Right for the cotangents that the run gave it, where the forward leaves open which of many bases it returns:
    a cotangent that sees the basis itself asks what has no answer. In words; "" if not so."""
    factors = factorisations(point)
    if not factors or received is None:
        return ""
    try:
        used = point.with_cotangents(received)
        as_used = used.weigh(index) if used is not None else None
    except TimeUp:
        raise
    except Exception:  # cotangents of another shape: the specimen was tried at another size
        return ""
    if as_used is None or as_used.outcome != "right":
        return ""
    return f"right for the cotangents of the run; others see the basis that {factors} happens to return"
