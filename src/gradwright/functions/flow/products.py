"""Products with the Jacobian of a pure function, once linearised and used often: J^T v and J u.

Everything here composes: under ``create_graph=True``, forward mode and torch.func the products are themselves
differentiable, because they are taken by ``torch.autograd.grad`` on aliases of the inputs (or by ``torch.func.vjp``,
where torch.func is at work and ``torch.autograd.grad`` can't be).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from gradwright.functions.flow.explicit import Leaves
from gradwright.ground.torch_versions.levels import are_functorch_transforms_active, is_transformed

Function = Callable[..., Leaves]


def plainly() -> bool:
    """Is this an ordinary backward, of which nobody wants a derivative?"""
    return not (torch.is_grad_enabled() or is_transformed())


class Pullback:
    """``function`` linearised at ``inputs``: ``outputs``, and J^T v by the inputs that are ``wanted``.

    Cost: one call of ``function`` with its graph, which is kept; each product one backward.
    """

    def __init__(self, function: Function, inputs: Sequence[Tensor], wanted: Sequence[bool]) -> None:
        self.wanted = [place for place, want in enumerate(wanted) if want and _differentiable(inputs[place])]
        self.count = len(inputs)
        self.record = torch.is_grad_enabled()
        self.functional = are_functorch_transforms_active()
        if self.functional:
            # A backward that runs after its torch.func.vjp has returned is handed wrappers of a level that is gone;
            # torch's next vjp fails on them with an internal assertion, an operation takes them off.
            self._linearise_functionally(function, [tensor.view_as(tensor) for tensor in inputs])
            return
        given = list(inputs)
        with torch.enable_grad():
            for place in self.wanted:
                given[place] = given[place].view_as(given[place])  # by itself only, not through others' history
                if not given[place].requires_grad:
                    given[place].requires_grad_()
            self.outputs = tuple(function(*given))
        self.aliases = given

    def __call__(self, cotangents: Sequence[Tensor], by: Sequence[int] | None = None) -> list[Tensor | None]:
        """One gradient per input; ``None`` for those not wanted, not in ``by``, or without influence."""
        places = [place for place in self.wanted if by is None or place in by]
        found: Sequence[Tensor | None] = [None] * len(places)
        if self.functional:
            every = dict(zip(self.wanted, self.pull(tuple(cotangents)), strict=True))
            found = [every[place] for place in places]
        else:
            pairs = [(o, c) for o, c in zip(self.outputs, cotangents, strict=True) if o.requires_grad]
            if pairs and places:
                found = torch.autograd.grad(
                    [o for o, _ in pairs], [self.aliases[place] for place in places], [c for _, c in pairs],
                    retain_graph=True, create_graph=self.record, allow_unused=True,
                )  # fmt: skip
        result: list[Tensor | None] = [None] * self.count
        for place, gradient in zip(places, found, strict=True):
            result[place] = gradient
        return result

    def _linearise_functionally(self, function: Function, inputs: Sequence[Tensor]) -> None:
        def of_wanted(*chosen: Tensor) -> Leaves:
            given = list(inputs)
            for place, tensor in zip(self.wanted, chosen, strict=True):
                given[place] = tensor
            return tuple(function(*given))

        self.outputs, self.pull, *_ = torch.func.vjp(of_wanted, *(inputs[place] for place in self.wanted))


def _differentiable(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def pushforward(
    function: Function, inputs: Sequence[Tensor], tangents: Sequence[Tensor | None]
) -> tuple[Leaves, Leaves]:
    """Outputs and J u, as the transpose of u ↦ J^T u.

    Forward-mode levels of torch don't nest, so inside a ``jvp`` staticmethod J u is had by two reverse passes:
    v ↦ J^T v is linear, its transpose is J (J. Townsend 2017, "A new trick for calculating Jacobian vector products").
    Cost: one call of ``function``, two backwards.
    """
    record = torch.is_grad_enabled()
    moving = [tangent is not None for tangent in tangents]
    if are_functorch_transforms_active():
        pullback = Pullback(function, inputs, moving)
        directions = tuple(u for place, u in enumerate(tangents) if place in pullback.wanted and u is not None)
        _, transposed, *_ = torch.func.vjp(pullback.pull, tuple(torch.zeros_like(o) for o in pullback.outputs))
        return pullback.outputs, transposed(directions)[0]
    with torch.enable_grad():
        pullback = Pullback(function, inputs, moving)
        dummies = [torch.zeros_like(output).requires_grad_() for output in pullback.outputs]
        rows = pullback(dummies)
        pairs = [(row, u) for row, u in zip(rows, tangents, strict=True) if row is not None and u is not None]
        pairs = [(row, u) for row, u in pairs if row.requires_grad]
        found: Sequence[Tensor | None] = [None] * len(dummies)
        if pairs:
            found = torch.autograd.grad(
                [row for row, _ in pairs], dummies, [u for _, u in pairs], create_graph=record, allow_unused=True
            )
    pushed = tuple(torch.zeros_like(o) if t is None else t for o, t in zip(pullback.outputs, found, strict=True))
    return tuple(output if record else output.detach() for output in pullback.outputs), pushed
