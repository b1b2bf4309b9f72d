"""Derivatives through a residual: the forward is run again, where autograd sees it.

A residual is computed inside the forward, without a graph. It leaves the Function as a further output, so that whoever
differentiates the gradient through it comes back here with a cotangent for it, instead of silently getting nothing
(pytorch #76185, #104040). What it needs then are the inputs; where they were not saved, that is said.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gradwright.errors import UsageError
from gradwright.functions.custom_gradient.call import Call
from gradwright.functions.custom_gradient.levels import differ, differentiating_levels, holds_anywhere
from gradwright.functions.custom_gradient.messages import complaint, listed
from gradwright.functions.custom_gradient.returned import Meta
from gradwright.functions.custom_gradient.transpose import transposed


def through_residuals(
    call: Call, cotangents: Sequence[Tensor | None], saved: Sequence[Tensor], metas: Sequence[Meta]
) -> list[Tensor | None]:
    """One gradient per tensor of the inputs. ``cotangents``: of the residuals.  Cost: one forward and its backward.

    Raises: UsageError, where an input was not saved, or the forward comes to another residual when it is run again.
    """
    at = dict(zip(call.saved, saved, strict=True))
    if lost := sorted({name for place, name in enumerate(call.leaf_names) if place not in at}):
        raise _refusal(
            call,
            f"it was computed without a graph, and {listed(lost)} was not saved to compute it again",
            f"name {listed(lost)} in the backward's signature, or compute the residual in the backward",
        )
    return _Again(call, at, metas).gradients(cotangents)


def tangents_of_residuals(
    call: Call, tangents: Sequence[Tensor | None], pool: Sequence[Tensor], metas: Sequence[Meta]
) -> list[Tensor | None]:
    """One tangent per tensor of the residuals, for the forward mode around this one.

    Raises: UsageError, where there is one around it that needs them, and they can't be had.
    """
    of = metas[call.count + call.output.count :]
    if not any(meta.differentiable for meta in of):
        return [None] * len(of)
    try:
        return _Again(call, dict(enumerate(pool)), metas).tangents(tangents)
    except UsageError:
        if differentiating_levels() > 1 or any(tensor.requires_grad for tensor in pool):
            raise
        return [meta.zeros() if meta.differentiable else None for meta in of]


class _Again:
    """The forward of a call once more, from its inputs to its residuals."""

    def __init__(self, call: Call, at: dict[int, Tensor], metas: Sequence[Meta]) -> None:
        self.call, self.metas = call, metas
        self.start = call.count + call.output.count
        self.leaves = [at[place] for place in range(call.count)]
        self.before = [at[place] for place in range(self.start, call.size)]
        self.places = [place for place in range(call.count) if metas[place].differentiable]
        self.wanted = [place for place in range(len(self.before)) if metas[self.start + place].differentiable]

    def _back(self) -> object:
        def residuals(*given: Tensor) -> tuple[Tensor, ...]:
            leaves = list(self.leaves)
            for place, tensor in zip(self.places, given, strict=True):
                leaves[place] = tensor
            return tuple(self.call.again().run(leaves)[self.start :])

        def wanted(*given: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
            found = residuals(*given)
            return tuple(found[place] for place in self.wanted), found

        try:
            _, back, found = torch.func.vjp(  # type: ignore[misc]  # its stub forgets has_aux
                wanted, *[self.leaves[place] for place in self.places], has_aux=True
            )
        except Exception as error:  # the forward is someone else's code, run in a way its author did not foresee
            first = next(iter(str(error).splitlines()), "")
            raise _refusal(
                self.call,
                f"running the forward again, where autograd sees it, raised {type(error).__name__}: {first}",
                "compute the residual in the backward, from the inputs",
            ) from error
        same = len(found) == len(self.before) and all(
            new.shape == old.shape and not (new.numel() and holds_anywhere(differ(new, old)))
            for new, old in zip(found, self.before, strict=False)
        )
        if not same:
            raise _refusal(
                self.call,
                "running the forward again came to another residual (a random one?)",
                "draw what is random outside, and hand it over as an input; or make a mask of it (bool)",
            )
        return back

    def gradients(self, cotangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        back = self._back()
        full = [
            self.metas[self.start + place].zeros() if (given := cotangents[place]) is None else given
            for place in self.wanted
        ]
        row: list[Tensor | None] = [None] * self.call.count
        for place, gradient in zip(self.places, back(tuple(full)), strict=True):  # type: ignore[operator]
            row[place] = gradient
        return row

    def tangents(self, tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        back = self._back()
        outs = [self.metas[self.start + place] for place in self.wanted]
        given = [tangents[place] for place in self.places]
        found = transposed(lambda cotangents: back(tuple(cotangents)), outs, given)  # type: ignore[operator]
        row: list[Tensor | None] = [None] * len(self.before)
        for place, tangent in zip(self.wanted, found, strict=True):
            row[place] = tangent
        return row


def _refusal(call: Call, why: str, do: str) -> Exception:
    residuals = [
        name for name, (_, places) in call.named.items() if any(p >= call.count + call.output.count for p in places)
    ]
    return complaint(
        f"a second derivative of {call.definition.name} goes through its residual {listed(residuals)}",
        where=call.definition.inputs.where,
        why=why,
        do=do,
    )
