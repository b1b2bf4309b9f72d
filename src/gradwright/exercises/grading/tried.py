"""The learner's answer, ready to be called on a case: with the reference, the limits and the words at hand."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gradwright.exercises.grading.grading import Grading, called_as, defined_at
from gradwright.exercises.grading.inputs import Case, Draws
from gradwright.exercises.grading.learner import guarded, quiet
from gradwright.exercises.grading.limits import NoLimits
from gradwright.ground.torch_versions.engine import run_engine


@dataclass
class Tried:
    """``defined``: what the file defines; ``subject``: how it is called; ``solution``: ours, to be compared with."""

    grading: Grading
    file: Path
    defined: Any
    subject: Callable[..., Any]
    solution: Callable[..., Any]
    seed: int
    limits: NoLimits
    _calls: int = field(default=0)

    @property
    def name(self) -> str:
        return self.grading.name

    @property
    def where(self) -> str:
        line = defined_at(self.defined)
        return f"{self.file.name}:{line}, {self.name}" if line else f"{self.file.name}, {self.name}"

    def draws(self) -> Draws:
        return Draws(self.seed)

    def cases(self) -> list[Case]:
        return list(self.grading.cases(self.draws()))

    def guard(self, work: Callable[[], Any], during: str, called: str = "") -> Any:
        """Run code of the learner's: its time is limited, its exceptions are told, its prints are shown once."""
        self._calls += 1
        with self.limits.during(during), contextlib.nullcontext() if self._calls == 1 else quiet():
            return guarded(work, during, self.file, called)

    def call(self, case: Case, args: tuple[Any, ...]) -> Any:
        """What comes of the learner's answer. Raises: NotYet."""
        during = f"{self.name} on {case.label}"
        return self.guard(lambda: self.grading.outcome(self.subject, args), during, called_as(self.grading))

    def gradient(
        self, result: Tensor, leaves: Mapping[str, Tensor], case: Case, *, create_graph: bool = False
    ) -> dict[str, Tensor]:
        """The gradient of ``result`` with respect to ``leaves``, under a drawn cotangent; zeros where there is none."""
        got = self.guard(
            lambda: vjp(result, list(leaves.values()), cotangent(self.seed, result), create_graph=create_graph),
            f"the backward of {self.name} on {case.label}",
        )
        return dict(zip(leaves, got, strict=True))

    def once(self, case: Case) -> Callable[[], None]:
        """A call with its backward, where there is one: for whoever watches or times it."""
        return once(self.grading, self.subject, case, self.seed)


def once(grading: Grading, subject: Callable[..., Any], case: Case, seed: int) -> Callable[[], None]:
    """``work()`` may be called once: some arguments are graphs, which a backward uses up."""
    args = case.args()
    leaves = list(case.leaves_of(args, grading.arguments).values())

    def work() -> None:
        result = grading.outcome(subject, args)
        if isinstance(result, Tensor) and result.requires_grad and leaves and grading.check is not None:
            vjp(result, leaves, cotangent(seed, result))

    return work


def vjp(result: Tensor, leaves: list[Tensor], cotangent: Tensor, *, create_graph: bool = False) -> list[Tensor]:
    """By autograd, zeros where no way leads from ``result`` to a leaf."""
    if not result.requires_grad:  # a loop over no rows has met no leaf
        return [torch.zeros_like(leaf) for leaf in leaves]
    # What torch.autograd.grad calls. That itself would be handed to a TorchFunctionMode, which is off inside of it, so
    # that whoever watches would not see what the backward calls.
    given = run_engine(
        (result,),
        (cotangent,),
        create_graph,
        create_graph,
        tuple(leaves),
        allow_unreachable=True,
        accumulate_grad=False,
    )
    return [torch.zeros_like(leaf) if one is None else one for leaf, one in zip(leaves, given, strict=True)]


def cotangent(seed: int, like: Tensor) -> Tensor:
    """The same numbers in every precision. Not all equal, not 1, and its sum is not 0."""
    generator = torch.Generator().manual_seed(seed + 1)
    return (0.5 + torch.randn(like.shape, generator=generator)).to(like.dtype)
