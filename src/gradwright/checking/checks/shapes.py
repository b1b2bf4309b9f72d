"""Check 7. Is the gradient right at other shapes, values and options, or only in the call that was given?

What is right at [4, 3] may be wrong at [4, 1] (a squeeze that drops an axis too many, deep-spin/entmax#35), where a
matrix is not square or not symmetric (a transpose forgotten), for another reduction (nni#3160) or along another axis.
So the sizes of the call are changed, together wherever they occur, and the options one at a time; parameters that are
all ones or zeros, as before the first update, where a forgotten factor doesn't show, are moved. A forward that
refuses is no fault, nor is a backward that refuses by a ``raise`` of its own; values are judged as by check 1, twice.
"""

from __future__ import annotations

import dis
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from gradwright.checking.checks.base import Answer, Check
from gradwright.checking.problem import Problem
from gradwright.checking.redraw import redrawn
from gradwright.checking.report import NotChecked
from gradwright.checking.resize import has_idle_slices, is_interchangeable
from gradwright.checking.trial import NotJudgeable, TimeUp
from gradwright.checking.values import judge_values
from gradwright.checking.variants import (
    MOVED,
    Variant,
    free_sizes,
    moved_from_the_start,
    option_variants,
    shape_variants,
    small_call,
    unsymmetric,
)
from gradwright.checking.vectors import largest_entry
from gradwright.checking.verdict import InputVerdict

# Elements of all inputs together above which the call is made smaller first.
LARGE = 2**12
# What is too little beside the gradient of the given call to be more than a solver's tolerance.
NOTABLE = 1e-4
# Words of complaints about sizes: what else a backward may raise in another call (a leaf, a domain) is not about them.
_ABOUT_SIZES = re.compile(r"size|shape|dim|expand|view|index|broadcast|unpack|rank|stride|elements|KeyError", re.I)
# Accepted variants of shapes, and of options, by level; refused ones cost one forward and are bounded with them.
MOST = {"standard": (6, 4), "full": (24, 24)}


def run(problem: Problem) -> Iterator[Answer]:
    trial = problem.trial
    if trial.tied:
        yield NotChecked("other shapes", "the inputs are tied to an object whose sizes are fixed")
        return
    if problem.expect is not None or problem.declared:
        return  # not meant to be the derivative: what it is held to is known for this call only
    sweep = _Sweep(problem)
    shapes, options = MOST.get(problem.level, MOST["standard"])
    sizes = sweep.sizes()
    base, small_sizes = sweep.small(sizes)
    if base is None:
        yield NotChecked("other shapes", "the call is large, and the forward takes no smaller one that was tried")
        return
    if base is not problem.args:
        yield from sweep.ask([Variant(base, "small")], 1)
    yield from sweep.ask(moved_from_the_start(base, problem.wanted, problem.names, problem.seed), 1)
    yield from sweep.ask(shape_variants(base, small_sizes, problem.seed), shapes)
    yield from sweep.ask(unsymmetric(base, problem.seed), 1)
    yield from sweep.ask(option_variants(base, problem.names), options)


class _Sweep:
    """What has been asked, and which inputs have been told about already."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.told: set[int] = set()
        self.raised = False

    def sizes(self) -> list[int]:
        """The sizes that may change; at most eight are tried."""
        free = free_sizes(self.problem.subject, self.problem.args)[:8]
        return [size for size in free if self._is_interchangeable(size)]

    def _is_interchangeable(self, size: int) -> bool:
        try:
            return is_interchangeable(self.problem.trial, size, self.problem.seed)
        except TimeUp:
            raise
        except Exception:  # the forward refuses another order
            return False

    def small(self, sizes: list[int]) -> tuple[tuple[Any, ...] | None, list[int]]:
        """The call to start from, ``None`` if there is none that is small, and its sizes that may change."""
        args = self.problem.args
        if _count(args) <= LARGE:
            return args, sizes
        fixed = set(free_sizes(self.problem.subject, args)) - set(sizes)
        for smaller in small_call(args, sizes, self.problem.seed):
            if _count(smaller) <= LARGE and self._accepts(smaller):
                found = free_sizes(self.problem.subject, smaller)
                return smaller, [size for size in found if size not in fixed]
        return None, []

    def _accepts(self, args: tuple[Any, ...]) -> bool:
        try:
            self.problem.trial.at(list(args))
        except TimeUp:
            raise
        except Exception:  # the forward may refuse what it was never meant for
            return False
        return True

    def ask(self, variants: Any, most: int) -> Iterator[Answer]:
        answered: set[str] = set()
        for tried, variant in enumerate(variants):
            if len(answered) >= most or tried >= 3 * most or self.problem.seconds_left < 0:
                return
            if variant.key in answered:
                continue
            try:
                trial = self.problem.trial.at(list(variant.args))
            except TimeUp:
                raise
            except Exception:  # the forward may refuse what it was never meant for
                continue
            answered.add(variant.key)
            if variant.is_longer(self.problem.args) and has_idle_slices(trial, self.problem.args):
                continue
            try:
                trial.gradient()
            except TimeUp:
                raise
            except NotJudgeable:
                continue
            except Exception as error:
                yield from self._raises(variant, error)
                continue
            finally:
                self.problem.trial.calls += trial.calls
            yield from self._values(variant)

    # --- a backward that raises --------------------------------------------------------------------------------------

    def _raises(self, variant: Variant, error: Exception) -> Iterator[Answer]:
        said = next(iter(str(error).splitlines()), "")
        if is_refusal(error) or self.raised:
            return
        where = self._where(variant)
        if "returned an invalid gradient at index" in said:
            self.raised = True
            yield CHECK.finding(
                self.problem,
                "GW203",
                cause="shape",
                message=f"{self.problem.label} returns a gradient of the wrong shape where {where}",
                why=said,
                do="return each gradient in the shape of its input, whatever its sizes are (keepdim, reshape_as)",
                shapes=_shapes(variant.args),
            )
        elif not variant.may_raise and _ABOUT_SIZES.search(f"{type(error).__name__} {said}"):
            self.raised = True
            yield CHECK.finding(
                self.problem,
                "GW101",
                cause="formula",
                message=f"the backward of {self.problem.label} raises where {where}, which its forward takes",
                why=f"{type(error).__name__}: {said}",
                do="take sizes from saved tensors, name the axis of every squeeze and sum, or refuse in the forward",
                shapes=_shapes(variant.args),
                raised=type(error).__name__,
            )

    # --- wrong values ------------------------------------------------------------------------------------------------

    def _values(self, variant: Variant) -> Iterator[Answer]:
        for verdict in self._judge(variant.args):
            if not self._is_news(verdict) or not self._is_wrong_again(variant.args, verdict.index):
                continue
            self.told.add(verdict.index)
            where = self._where(variant)
            yield CHECK.finding(
                self.problem,
                "GW101",
                cause=verdict.cause,
                message=f"{self.problem.label} returns a wrong gradient of {verdict.name} where {where}: "
                f"{verdict.cause}",
                why=self._why(verdict),
                do="derive the gradient for all sizes, values and options that the forward takes, or refuse the others",
                index=verdict.index,
                shapes=_shapes(variant.args),
                variant=variant.told or variant.key,
                moved=variant.key == MOVED,
                at=verdict.at,
                returned=verdict.returned,
                expected=verdict.expected,
                worst_error=verdict.error,
                factor=verdict.factor,
                oracles=verdict.oracles,
            )

    def _judge(self, args: tuple[Any, ...]) -> tuple[InputVerdict, ...]:
        problem = self.problem
        return judge_values(
            problem.subject,
            args,
            [index in problem.wanted for index in range(len(args))],
            names=problem.names,
            seed=problem.seed,
            deadline=problem.deadline,
            outputs=problem.outputs,
        )

    def _is_news(self, verdict: InputVerdict) -> bool:
        """Is it wrong here, by what matters beside the gradient in the call that was given, and right there?"""
        if verdict.verdict != "wrong" or verdict.index in self.told:
            return False
        if verdict.returned is not None and verdict.expected is not None:
            least = NOTABLE * largest_entry(self.problem.baseline[verdict.index])
            if abs(verdict.returned - verdict.expected) <= least:
                return False  # a solver's own tolerance, where the truth is zero
        return any(given.index == verdict.index and given.verdict == "right" for given in self.problem.verdicts)

    def _is_wrong_again(self, args: tuple[Any, ...], index: int) -> bool:
        """At other values of that input, all others as they are: they may be tied to one another."""
        others = list(args)
        others[index] = redrawn(args[index], torch.Generator().manual_seed(self.problem.seed + 1))
        return any(verdict.index == index and verdict.verdict == "wrong" for verdict in self._judge(tuple(others)))

    def _why(self, verdict: InputVerdict) -> str:
        if verdict.returned is None or verdict.expected is None:
            return verdict.reason
        at = list(verdict.at) if verdict.at else ""
        return (
            f"{verdict.name}{at}: returned {verdict.returned:.6g}, is {verdict.expected:.6g} there"
            f" (relative error {verdict.error:.2g}); right in the call that was given"
        )

    def _where(self, variant: Variant) -> str:
        if variant.told:
            return variant.told
        pairs = zip(self.problem.names, self.problem.args, variant.args, strict=True)
        changed = [
            f"{name} is {list(new.shape)}"
            for name, old, new in pairs
            if isinstance(new, Tensor) and new.shape != old.shape
        ]
        return " and ".join(changed[:3]) or "some of the inputs are others"


def is_refusal(error: BaseException) -> bool:
    """Did the subject itself ``raise`` this, by a statement of its own: honest, however it is worded?"""
    if isinstance(error, NotImplementedError):
        return True
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    code = trace.tb_frame.f_code
    if "/torch/" in code.co_filename.replace("\\", "/"):
        return False
    return dis.opname[code.co_code[trace.tb_lasti]].startswith("RAISE")


def _count(args: tuple[Any, ...]) -> int:
    return sum(value.numel() for value in args if isinstance(value, Tensor))


def _shapes(args: tuple[Any, ...]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(value.shape) for value in args if isinstance(value, Tensor))


CHECK = Check(
    7,
    "shapes",
    "standard",
    {"GW101": "gradient-value-wrong", "GW203": "cotangent-of-wrong-shape"},
    run,
)
