"""A subject under vmap, beside the loop that vmap stands for."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gradwright.checking.transforms import Compared, noise, pure, rounding
from gradwright.checking.trial import Trial, flat, quiet

BATCH = 3


class Samples:
    """``BATCH`` calls beside a trial, and what eager mode gives for each: the loop that vmap stands for."""

    def __init__(self, trial: Trial, seed: int) -> None:
        self.trial = trial
        beside = [trial.nudged(seed + number) for number in range(BATCH)]
        self.primals = [pure(each)[1] for each in beside]
        self.cotangents = [tuple(trial.redrawn(seed + number)) for number in range(BATCH)]
        self.loop = [self._eager(*pair) for pair in zip(self.primals, self.cotangents, strict=True)]
        self.rounding = {index: max(noise(each, index) for each in beside) for index in trial.wanted}

    def _eager(
        self, primals: Sequence[Tensor], cotangents: Sequence[Tensor]
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Outputs and gradients of one call."""
        function, _ = pure(self.trial)
        with quiet(self.trial.precision, self.trial.seed), torch.enable_grad():
            self.trial.tick()
            leaves = [primal.detach().clone().requires_grad_() for primal in primals]
            outputs = function(*leaves)
            found = torch.autograd.grad(outputs, leaves, cotangents, allow_unused=True)
        gradients = [torch.zeros_like(leaf) if item is None else item for leaf, item in zip(leaves, found, strict=True)]
        return tuple(output.detach() for output in outputs), tuple(gradients)

    def batched_forward(self, at_end: bool = False) -> list[Compared]:
        """``vmap`` of the subject, batched along the first axis (or the last), and autograd through the result.

        At the end, no more samples than the first axis is long: a rule that takes that one for the batch then answers,
        wrongly, instead of running over its end. Moved back to the front, the batch is contiguous.
        """
        count = BATCH
        if at_end:
            count = min([BATCH, *(primal.shape[0] for primal in self.primals[0] if primal.dim() and primal.numel())])
        columns = [torch.stack(column) for column in zip(*self.primals[:count], strict=True)]
        axes = [column.dim() - 1 if at_end else 0 for column in columns]
        leaves = [column.movedim(0, axis).detach().requires_grad_() for column, axis in zip(columns, axes, strict=True)]
        outputs, gradients = self._through(leaves, axes, self.cotangents[:count])
        gradients = [gradient.movedim(axis, 0) for gradient, axis in zip(gradients, axes, strict=False)]
        return self._compared(outputs, gradients, self.loop[:count])

    def one_batched(self) -> list[Compared]:
        """``vmap`` with the first input batched and the others shared: their gradients are summed over the batch."""
        shared = self.primals[0][1:]
        loop = [
            self._eager((primals[0], *shared), cotangents)
            for primals, cotangents in zip(self.primals, self.cotangents, strict=True)
        ]
        first = torch.stack([primals[0] for primals in self.primals]).requires_grad_()
        leaves = [first, *(tensor.detach().clone().requires_grad_() for tensor in shared)]
        outputs, gradients = self._through(leaves, [0, *[None] * len(shared)], self.cotangents)
        compared = self._compared(outputs, gradients[:1], [(values, found[:1]) for values, found in loop])
        for index, place in zip(self.trial.wanted[1:], range(1, len(gradients)), strict=False):
            total = torch.stack([found[place] for _, found in loop]).sum(0)
            compared.append(Compared.of("gradient", index, gradients[place], total, BATCH * self.rounding[index]))
        return compared

    def batched_gradients(self) -> list[Compared]:
        """Per-sample gradients: ``vmap`` of ``torch.func.vjp``."""
        self.trial.tick()
        function, _ = pure(self.trial)

        def gradients(primals: tuple[Tensor, ...], cotangents: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            pull_back = torch.func.vjp(function, *primals)[1]
            found: tuple[Tensor, ...] = pull_back(cotangents)
            return found

        columns = tuple(torch.stack(column) for column in zip(*self.primals, strict=True))
        cotangents = tuple(torch.stack(column) for column in zip(*self.cotangents, strict=True))
        with quiet(self.trial.precision, self.trial.seed):
            found = torch.func.vmap(gradients)(columns, cotangents)
        return self._compared((), list(found), [((), gradients) for _, gradients in self.loop])

    def _through(
        self, leaves: list[Tensor], axes: Sequence[int | None], cotangents: Sequence[tuple[Tensor, ...]]
    ) -> tuple[tuple[Tensor, ...], list[Tensor]]:
        """Outputs of the vmapped subject, and gradients through them; none where an output has another shape."""
        self.trial.tick()
        function, _ = pure(self.trial)
        with quiet(self.trial.precision, self.trial.seed), torch.enable_grad():
            outputs = torch.func.vmap(function, in_dims=tuple(axes))(*leaves)
            given = [torch.stack(column) for column in zip(*cotangents, strict=True)]
            pairs = [(o, c) for o, c in zip(outputs, given, strict=True) if o.requires_grad]
            found: Sequence[Tensor | None] = [None] * len(leaves)
            if any(output.shape != cotangent.shape for output, cotangent in zip(outputs, given, strict=True)):
                found = leaves = []
            elif pairs:
                found = torch.autograd.grad(
                    [o for o, _ in pairs], leaves, [c for _, c in pairs], allow_unused=True
                )  # fmt: skip
        gradients = [torch.zeros_like(leaf) if item is None else item for leaf, item in zip(leaves, found, strict=True)]
        return tuple(output.detach() for output in outputs), gradients

    def _compared(
        self,
        outputs: Sequence[Tensor],
        gradients: Sequence[Tensor],
        loop: Sequence[tuple[tuple[Tensor, ...], tuple[Tensor, ...]]],
    ) -> list[Compared]:
        compared = []
        for place, output in enumerate(outputs):
            eager = torch.stack([values[place] for values, _ in loop])
            compared.append(Compared.of("output", None, output, eager, rounding(self.trial, flat(eager))))
        for place, gradient in enumerate(gradients):
            index = self.trial.wanted[place]
            eager = torch.stack([found[place] for _, found in loop])
            compared.append(Compared.of("gradient", index, gradient, eager, self.rounding[index]))
        return compared
