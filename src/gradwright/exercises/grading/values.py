"""Is the value right, on every drawn input?"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gradwright.exercises.grading.compared import difference, shape_fault
from gradwright.exercises.grading.inputs import Case
from gradwright.exercises.grading.tried import Tried
from gradwright.exercises.outcome import NotYet


def ask_value(tried: Tried) -> str:
    """Raises: NotYet, with the input, the entry, what it is and what it should be."""
    worst = 0.0
    cases = tried.cases()
    for case in cases:
        args = case.args()
        before = [_copy(arg) for arg in args]
        got = tried.call(case, args)
        expected = tried.grading.outcome(tried.grading.reference, case.exact())
        fault = shape_fault(got, expected, case.dtype)
        if fault is not None:
            raise NotYet(f"{tried.name}: {fault[0]}", where=tried.where, why=_given(case, args), do=fault[1])
        error, words = difference(got, expected, case.tolerance)
        if words:
            raise NotYet(
                f"{tried.name} is not right on {case.label}: {words}",
                where=tried.where,
                why=_given(case, args),
                do="compare it with the formula of the task (gradwright exercise shows it), by hand for one entry",
            )
        _untouched(tried, case, args, before)
        worst = max(worst, error)
    return f"{len(cases)} inputs, worst difference {worst:.1g}"


def _untouched(tried: Tried, case: Case, args: tuple[Any, ...], before: list[Any]) -> None:
    for name, arg, kept in zip(tried.grading.arguments, args, before, strict=False):
        if kept is None:
            continue
        values, required = kept
        if not torch.equal(torch.nan_to_num(arg.detach()), torch.nan_to_num(values)):
            raise NotYet(
                f"{tried.name} changes its input {name} ({case.label})",
                where=tried.where,
                why="whoever calls it still needs that tensor",
                do="work on a copy: no operation whose name ends in _, no assignment into it",
            )
        if arg.requires_grad != required:
            raise NotYet(
                f"{tried.name} changes requires_grad of its input {name} ({case.label})",
                where=tried.where,
                do=f"{name}.detach().requires_grad_() is a tensor of your own with the same values",
            )


def _copy(arg: Any) -> tuple[Tensor, bool] | None:
    return (arg.detach().clone(), arg.requires_grad) if isinstance(arg, Tensor) else None


def _given(case: Case, args: tuple[Any, ...]) -> str:
    """``given float64 [3, 4], float64 [4]``"""
    return f"{case.label}: given " + ", ".join(
        f"{str(arg.dtype).removeprefix('torch.')} {list(arg.shape)}" if isinstance(arg, Tensor) else _short(arg)
        for arg in args
    )


def _short(arg: Any) -> str:
    return f"{arg:.4g}" if isinstance(arg, float) else type(arg).__name__ if not isinstance(arg, int) else str(arg)
