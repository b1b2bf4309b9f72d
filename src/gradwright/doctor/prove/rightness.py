"""Is a mended gradient right? Asked of ``gradwright.checking``, since the original's is no measure."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gradwright.checking import judge_values
from gradwright.doctor.prove.learning import OutOfTimeError
from gradwright.doctor.prove.neighbours import normal_numbers, with_values
from gradwright.doctor.prove.noticed import mark
from gradwright.doctor.prove.specimens import (
    Args,
    cut,
    describe,
    is_real_tensor,
    lengths,
    longest_axis,
    same_length,
    tensors,
)
from gradwright.doctor.prove.trial import Subject, Trial, run
from gradwright.ground import clock

Specimen = tuple[tuple[Any, ...], tuple[bool, ...]]


def subject_of(function: Any) -> Subject:
    """A Function as something to call: its outputs by name."""

    def call(*args: Any) -> dict[str, Any]:
        returned = function.apply(*args)
        outputs = returned if isinstance(returned, tuple) else (returned,)
        return {f"output {index}": value for index, value in enumerate(outputs)}

    return call


def compiled_where_dense(plain: Subject, compiled: Subject, runs: Sequence[Args] = ()) -> Subject:
    """A subject whose kernels are compiled for dense inputs, the usual ones, and run as Python for each other layout.

    ``runs``: arguments of the run; then also for other dtypes than theirs, and where something else than with them
    requires a gradient. Compiling takes seconds, and they are the same text.
    """
    recorded = any(tensor.requires_grad for args in runs for tensor in tensors(args))

    def kinds(args: Args) -> list[tuple[torch.dtype, bool]]:
        return [(one.dtype, recorded and one.requires_grad) for one in tensors(args)]

    usual = [kinds(args) for args in runs]

    def call(*args: Any) -> dict[str, Any]:
        dense = all(tensor.is_contiguous() for tensor in tensors(args))
        return dict((compiled if dense and (not usual or kinds(args) in usual) else plain)(*args))

    return call


def names_of(function: Any) -> Callable[[Sequence[Any]], list[str]]:
    """What the arguments of a Function are called: by its forward's parameters, without the context."""
    code = getattr(inspect.unwrap(function.forward), "__code__", None)
    found = list(code.co_varnames[: code.co_argcount]) if code else []
    if function.setup_context is torch.autograd.Function.setup_context:
        found = found[1:]

    def names(args: Sequence[Any]) -> list[str]:
        return [*found[: len(args)], *(f"argument {index}" for index in range(len(found), len(args)))]

    return names


def chosen(names: Sequence[str], wanted: Sequence[bool]) -> frozenset[str]:
    return frozenset(name for name, want in zip(names, wanted, strict=True) if want)


def wrong_value(
    call: Callable[..., Any], names: Sequence[str], specimens: Sequence[tuple[Args, frozenset[str]]], deadline: float
) -> str:
    """The first gradient of a callable that finite differences of its values don't bear out; "" if there is none."""
    for args, wanted in specimens:
        for verdict in judge_values(call, args, [name in wanted for name in names], deadline=deadline):
            if verdict.verdict != "right":
                return f"{describe(args)}: the gradient of {names[verdict.index]} is {verdict.verdict}"
    return ""


@dataclass
class Rightness:
    """``original`` is the Function whose gradients are wrong; each specimen says which gradients were wanted.

    ``by_a_number``: it is to be mended by a number, which may be a length of the specimens and no number at all.
    """

    original: Any
    specimens: list[Specimen]
    deadline: float
    by_a_number: bool = False
    excused: frozenset[int] = frozenset()

    def reason_against(self, candidate: Any) -> str:
        """The first wanted gradient that is not right, in words; "" if all are and at least one was not before."""
        judged = [*self.specimens, *((with_values(args, normal_numbers), wanted) for args, wanted in self.small)]
        self.excused = self.untouched(candidate)
        if wrong := self.judge(candidate, judged):
            return wrong
        if self.by_a_number and (wrong := self._wrong_elsewhere(candidate)):
            return wrong
        if not self._wrong_before(judged) - self.excused:
            return "it mends nothing: every gradient that was wrong is as it was"
        return ""

    def rejects(self, twin: Any) -> bool:
        return bool(self.judge(twin, self.small))

    def right(self, twin: Any) -> bool:
        """Whether every gradient of a twin is right, also those that nobody set out to mend: then it is no fault."""
        return all(
            verdict.verdict == "right"
            for args, wanted in self.small
            for verdict in judge_values(twin, args, wanted, deadline=self.deadline)
        )

    def untouched(self, candidate: Any) -> frozenset[int]:
        """Inputs whose gradient the candidate leaves as the original has it: another finding's matter, if wrong."""
        same: set[int] = set()
        changed: set[int] = set()
        for args, wanted in self.small:
            names = names_of(self.original)(args)
            trial = Trial(with_values(args, normal_numbers), chosen(names, wanted))
            before, after = (run(subject_of(one), trial, names) for one in (self.original, candidate))
            for index, name in enumerate(names):
                if wanted[index] and isinstance(args[index], torch.Tensor) and not before.raised and not after.raised:
                    old, new = before.gradients.get(name), after.gradients.get(name)
                    (same if mark(old) == mark(new) else changed).add(index)
        return frozenset(same - changed)

    def _wrong_elsewhere(self, candidate: Any) -> str:
        """The first gradient that is wrong once no axis has the length that it had in the run; "" if there is none."""
        for args, wanted in self.shorter:
            for verdict in judge_values(candidate, args, wanted, deadline=self.deadline):
                if verdict.verdict == "wrong" and verdict.index not in self.excused:
                    return f"{describe(args)}: the gradient of input {verdict.index} is wrong there"
        return ""

    def _wrong_before(self, specimens: Sequence[Specimen]) -> frozenset[int]:
        """Inputs whose gradient the original has wrong."""
        return frozenset(
            verdict.index
            for args, wanted in specimens
            for verdict in judge_values(self.original, args, wanted, deadline=self.deadline)
            if verdict.verdict == "wrong"
        )

    def judge(self, candidate: Any, specimens: Sequence[Specimen]) -> str:
        """The first wanted gradient that is not right, in words; "" if there is none. Raises: OutOfTimeError."""
        for args, wanted in specimens:
            for verdict in judge_values(candidate, args, wanted, deadline=self.deadline):
                if verdict.verdict == "right":
                    continue
                if verdict.index not in self.excused or verdict.index not in self.untouched(candidate):
                    if clock.now() > self.deadline:
                        raise OutOfTimeError
                    values = f"returned {verdict.returned}, expected {verdict.expected} at {list(verdict.at)}"
                    told = verdict.reason if verdict.verdict == "unknown" else values
                    return f"{describe(args)}: the gradient of input {verdict.index} is {verdict.verdict}: {told}"
        return ""

    @functools.cached_property
    def small(self) -> list[Specimen]:
        """The specimens cut, every real input wanted if the original bears that: no gradient is left unseen."""
        result = []
        for args, wanted in self.specimens:
            small = cut(args, same_length, lengths(args, same_length, longest_axis(args)))
            every = tuple(is_real_tensor(value) for value in args)
            names = names_of(self.original)(small)
            outcome = run(subject_of(self.original), Trial(small, chosen(names, every)), names)
            result.append((small, wanted if outcome.raised else every))
        return result

    @functools.cached_property
    def shorter(self) -> list[Specimen]:
        """The specimens cut so that every axis lost something, where the original's forward bears that."""
        result = []
        for args, wanted in self.specimens:
            kept = lengths(args, same_length, longest_axis(args))
            fewer = {key: length - 1 if length == key[0] else length for key, length in kept.items()}
            cut_more = with_values(cut(args, same_length, fewer), normal_numbers)
            names = names_of(self.original)(cut_more)
            if not run(subject_of(self.original), Trial(cut_more, frozenset()), names).raised:
                result.append((cut_more, wanted))
        return result
