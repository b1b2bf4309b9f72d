"""A forward that has run, kept with its graph: what comes back through it for cotangents of any kind."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction

from gradwright.checking.context import bound_arguments, is_function, run_forward
from gradwright.checking.trial import Handed, NotJudgeable, Trial, flat, quiet
from gradwright.ground.graphs import graph_of

Gradient = dict[int, Tensor]  # by input: flat, float64, on the CPU; zeros where the backward gave none


Call = Callable[[list[Any]], Any]  # of arguments: an output as the subject returns it


class Recorded:
    """One forward of ``trial`` on ``handed`` (the trial's own copies by default). Build and use it in :func:`calm`.

    ``call``: what is called, the subject by default (:func:`plain` is another choice).
    ``outputs`` are those that can receive a cotangent, in the order of ``trial.cotangents``; ``targets`` the tensors,
    by input, whose gradient is asked for. Raises: what the forward raises; TimeUp.
    """

    def __init__(self, trial: Trial, handed: Handed | None = None, call: Call | None = None) -> None:
        trial.tick()
        handed = trial.handed() if handed is None else handed
        self.trial, self.targets = trial, handed.targets
        outputs = trial.outputs_of((call or trial.call)(handed.args))
        if len(outputs) != len(trial.active):
            raise NotJudgeable("the forward returns now one number of tensors, now another")
        self.outputs = [output for output, active in zip(outputs, trial.active, strict=True) if active]

    def gradient(
        self,
        cotangents: Sequence[Tensor | None],
        *,
        keep: bool = True,
        through: Callable[[Tensor], Tensor] | None = None,
    ) -> Gradient:
        """What comes back for ``cotangents``, handed on as they are, layout and all.

        ``None``: that output's cotangent is undefined. ``keep``: the graph lives on. ``through``: what each output goes
        through before it meets its cotangent. Raises: what the backward raises.
        """
        self.trial.calls += 1
        pairs = [
            (output if through is None else through(output), cotangent)
            for output, cotangent in zip(self.outputs, cotangents, strict=True)
            if cotangent is not None and output.requires_grad
        ]
        found: Sequence[Tensor | None] = [None] * len(self.targets)
        if pairs:
            outputs, given = [output for output, _ in pairs], [cotangent for _, cotangent in pairs]
            targets = list(self.targets.values())
            found = torch.autograd.grad(outputs, targets, given, retain_graph=keep, allow_unused=True)
        return {
            index: torch.zeros_like(self.trial.inputs[index]) if gradient is None else flat(gradient)
            for index, gradient in zip(self.targets, found, strict=True)
        }

    def values(self) -> list[Tensor]:
        """The outputs, flat."""
        return [flat(output) for output in self.outputs]


@contextmanager
def calm(trial: Trial, seed: int | None = None) -> Iterator[None]:
    """Random numbers, warnings, default dtype and grad mode as the trial's own calls have them."""
    with quiet(trial.precision, trial.seed if seed is None else seed), torch.enable_grad():
        yield


def anew(
    trial: Trial,
    cotangents: Sequence[Tensor | None],
    call: Call | None = None,
    through: Callable[[Tensor], Tensor] | None = None,
) -> Gradient:
    """The gradient of a whole fresh call, forward and backward, with options as :class:`Recorded` has them."""
    with calm(trial):
        return Recorded(trial, call=call).gradient(cotangents, keep=False, through=through)


def redrawn(trial: Trial, cotangents: Sequence[Tensor], seed: int) -> Gradient:
    """The gradient of a fresh call between whose forward and backward the random state became that of ``seed``."""
    with calm(trial):
        recorded = Recorded(trial)
        torch.manual_seed(seed)
        random.seed(seed)
        if (numpy := sys.modules.get("numpy")) is not None:
            numpy.random.seed(seed % 2**32)
        return recorded.gradient(cotangents, keep=False)


def plain(trial: Trial) -> Call | None:
    """The subject as autograd sees through it, so that all derivatives are torch's own: a Function's forward, or a
    callable in whose graph there is no custom node. ``None`` for other callables. Cost: one call of a callable."""
    if is_function(trial.subject):

        def forward(args: list[Any]) -> Any:
            needs = [index in trial.wanted for index in range(len(args))]
            return run_forward(trial.subject, bound_arguments(trial.subject, args), needs)[0]

        return forward
    with calm(trial):
        nodes = list(graph_of(Recorded(trial).outputs))
    custom = (isinstance(node, BackwardCFunction) or "CppNode" in type(node).__name__ for node in nodes)
    return None if any(custom) else trial.call
