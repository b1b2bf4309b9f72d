"""A smaller call with the same fault: sizes first, then values, as long as the same finding comes back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from gradwright.checking.checks import all_checks
from gradwright.checking.problem import Problem
from gradwright.checking.report import Finding
from gradwright.checking.resize import NoSuchCall, resized
from gradwright.checking.structure import structure_of
from gradwright.checking.variants import free_sizes
from gradwright.ground import clock

Holds = Callable[[tuple[Any, ...]], bool]


def with_args(problem: Problem, args: tuple[Any, ...], deadline: float | None) -> Problem:
    """The same question about another call."""
    return dataclasses.replace(problem, args=args, deadline=deadline, level="standard", received=None)


def comes_back(problem: Problem, finding: Finding, deadline: float) -> Holds:
    """Does the check that found it find it again: same code, cause and input?"""
    check = next(check for check in all_checks() if check.title == finding.check)

    def holds(args: tuple[Any, ...]) -> bool:
        try:
            for answer in check.run(with_args(problem, args, deadline)):
                if isinstance(answer, Finding) and _same(answer, finding):
                    return True
        except Exception:  # the subject is someone else's code, and the deadline may pass
            return False
        return False

    return holds


def _same(one: Finding, other: Finding) -> bool:
    return (one.code, one.cause, one.input) == (other.code, other.cause, other.input)


def shrunk(
    subject: Any, args: tuple[Any, ...], holds: Holds, *, seed: int = 0, tries: int = 60, seconds: float = 5.0
) -> tuple[Any, ...]:
    """The smallest and simplest ``args`` for which ``holds`` was seen to hold; ``args`` itself if nothing less does.

    Cost: up to ``tries`` calls of ``holds``, or ``seconds``.
    """
    budget = _Budget(tries, clock.now() + seconds)
    args = _smaller(subject, args, holds, seed, budget)
    for at, value in enumerate(args):
        if isinstance(value, Tensor) and value.numel():
            for simpler in _simpler(value):
                candidate = (*args[:at], simpler, *args[at + 1 :])
                if budget.spend() and holds(candidate):
                    args = candidate
                    break
    return args


class _Budget:
    def __init__(self, tries: int, until: float) -> None:
        self.left, self.until = tries, until

    def spend(self) -> bool:
        self.left -= 1
        return self.left >= 0 and clock.now() < self.until


def _smaller(subject: Any, args: tuple[Any, ...], holds: Holds, seed: int, budget: _Budget) -> tuple[Any, ...]:
    changed = True
    while changed:
        changed = False
        for size in sorted(free_sizes(subject, args), reverse=True):
            for less in dict.fromkeys((1, 2, 3, size // 4, size // 2, size - 1)):
                if not 1 <= less < size:
                    continue
                try:
                    candidate = resized(args, {size: less}, seed)
                except NoSuchCall:
                    break
                if budget.spend() and holds(candidate):
                    args, changed = candidate, True
                    break
    return args


def _simpler(value: Tensor) -> Iterator[Tensor]:
    """The same tensor with simpler numbers, the simplest first; contiguous; with its structure kept."""
    plain = value.detach().contiguous()
    if not (value.is_floating_point() or value.is_complex()):
        if not value.is_contiguous():
            yield plain
        return
    count = torch.arange(value.numel(), device=value.device)
    ranks = (count % 4 + 1).reshape(value.shape)
    sign = plain.sgn() if value.is_complex() else plain.sign()
    kind = structure_of(value)
    numbers = [
        torch.ones_like(plain),
        ranks.to(plain.dtype),
        sign * ranks,
        sign * ranks / 2,
        (plain * 2).round() / 2 if not value.is_complex() else plain,
        (plain * 10).round() / 10 if not value.is_complex() else plain,
        plain,
    ]
    for candidate in numbers:
        if kind is None or torch.equal(candidate, plain):
            yield torch.nn.Parameter(candidate) if isinstance(value, torch.nn.Parameter) else candidate
