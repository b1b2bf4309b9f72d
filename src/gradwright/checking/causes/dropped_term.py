"""A part is missing: one output's cotangent, a part of a cotangent, the identity's share, one way through the forward.

The last is asked of the forward's own graph: each use of a tensor that is used more than once is one term of the
product rule, and the gradient without it can be computed.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from gradwright.checking.causes.base import Cause, Fit
from gradwright.checking.causes.case import Case
from gradwright.checking.oracles.ways import gradients_without_a_way
from gradwright.checking.trial import flat


def fits(case: Case) -> Cause | None:
    return _cotangent(case) or _identity(case) or _way(case)


def _cotangent(case: Case) -> Cause | None:
    """Is it the gradient of a cotangent a part of which was left out?"""
    for words, keep in _masks(case.cotangents):
        kept = [c * k for c, k in zip(case.cotangents, keep, strict=True)]
        if not case.same(case.part, case.true_under(kept)):
            continue
        other = [c * k for c, k in zip(case.other, keep, strict=True)]
        if case.same(case.pick(case.other_returned), case.true_under(other)):
            return Cause("dropped term", None, {"dropped": words}, words)
    return None


def _masks(cotangents: list[torch.Tensor]) -> Iterator[tuple[str, list[torch.Tensor]]]:
    ones = [torch.ones_like(c) for c in cotangents]
    for number, cotangent in enumerate(cotangents):
        for axis, size in enumerate(cotangent.shape):
            if size < 2:
                continue
            for word, index in (
                ("the first", slice(0, 1)), ("the last", slice(size - 1, size)), ("all but the first", slice(1, size)),
                ("all but the last", slice(0, size - 1)), ("the first half", slice(0, size // 2)),
                ("the second half", slice(size // 2, size)), ("every second", slice(1, size, 2)),
                ("every second from the first", slice(0, size, 2)),
            ):  # fmt: skip
                mask = torch.ones_like(cotangent)
                mask.transpose(0, axis)[index] = 0
                yield f"{word} along axis {axis} of the cotangent is ignored", _replaced(ones, number, mask)
        count = cotangent.numel()
        for word, index in (("the first half", slice(0, count // 2)), ("the second half", slice(count // 2, count))):
            mask = torch.ones(count, dtype=cotangent.dtype, device=cotangent.device)
            mask[index] = 0
            yield f"{word} of the cotangent is ignored", _replaced(ones, number, mask.reshape(cotangent.shape))


def _replaced(masks: list[torch.Tensor], number: int, mask: torch.Tensor) -> list[torch.Tensor]:
    return [mask if position == number else old for position, old in enumerate(masks)]


def _identity(case: Case) -> Cause | None:
    """Is what is missing the cotangent itself, as where ``x + f(x)`` is differentiated as ``f(x)``?"""
    for number, cotangent in enumerate(case.cotangents):
        if flat(cotangent).numel() != case.returned.numel():
            continue
        if case.same(case.part + case.pick(flat(cotangent)), case.truth) and case.same(
            case.pick(case.other_returned) + case.pick(flat(case.other[number])), case.other_truth
        ):
            return Cause("dropped term", None, {"dropped": "grad_output"}, "the cotangent itself is missing")
    return None


def _way(case: Case) -> Cause | None:
    if not case.oracle.exact:
        return None
    for name, gradient in gradients_without_a_way(case.trial, case.index):
        if case.same(case.part, gradient) and not case.same(gradient, case.truth):
            return Cause("dropped term", None, {"dropped": name}, f"the way through {name} is missing")
    return None


FIT = Fit(105, fits)
