"""What a Function computes, as a formula of its inputs, and the gradients that follow: read off one recorded call.

Recorded is what torch's own operations do, forward and backward; written is Python-like text; and what is written is
evaluated, and judged as a backward is judged, before anyone sees it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from gradwright.checking.context import bound_arguments, input_names
from gradwright.doctor.observed import FunctionUse, Kept
from gradwright.doctor.probe.attempts import Limits, attempt
from gradwright.doctor.probe.formula.confirming import confirmed
from gradwright.doctor.probe.formula.formula import Formula, as_tensor, formula_of
from gradwright.doctor.probe.formula.recording import record
from gradwright.doctor.probe.formula.values import NoFormula
from gradwright.doctor.probe.shrink import describe
from gradwright.doctor.session.facts import FunctionFormula
from gradwright.ground import clock

__all__ = ["formula_facts", "read_off"]

SECONDS = 2.0  # some hundredths are usual


def formula_facts(use: FunctionUse, kept: Kept, args: tuple[Any, ...], limits: Limits) -> Iterator[FunctionFormula]:
    """At most one; none where the forward has no short formula in public operations. In a forked child."""

    def work() -> tuple[str, tuple[tuple[str, str], ...]] | None:
        try:
            formula = read_off(use.function, args, kept.wanted, deadline=clock.now() + SECONDS / 2)
        except Exception:  # the forward is someone else's code, run in a way its author did not foresee
            return None
        names = input_names(use.function, len(args))
        gradients = tuple((names[place], "\n".join(lines)) for place, lines in formula.gradients.items())
        return "\n".join(formula.forward), gradients

    found = attempt(work, Limits(min(SECONDS, limits.seconds), limits.memory_bytes)).value
    if found is not None:
        yield FunctionFormula(
            id=f"formula {use.subject.id}",
            subject=use.subject.id,
            forward=found[0],
            gradients=found[1],
            tried_on=describe(args),
        )


def read_off(
    function: type[torch.autograd.Function],
    args: Sequence[Any],
    wanted: Sequence[bool],
    *,
    deadline: float | None = None,
) -> Formula:
    """The formula of ``function`` at ``args``, which are not changed; in it only gradients that were found right.

    Numbers keep their names, where the forward takes tensors for them.
    Raises: NoFormula; whatever the forward raises. Cost: three calls, and those of a value check of each input.
    """
    args = bound_arguments(function, args)
    wanted = [*wanted, *[False] * (len(args) - len(wanted))]
    names = input_names(function, len(args))
    wide = [_raised(arg) for arg in args]
    for kinds in ((float, int), (float,)):
        if any(type(arg) in kinds for arg in wide):
            given = [as_tensor(arg) if type(arg) in kinds else arg for arg in wide]
            try:
                formula = _written(function, given, wanted, names)
                return confirmed(formula, function, wide, wanted, names, deadline=deadline)
            except Exception:  # a condition on the number, a size, a call that takes no tensor for it
                continue  # then it is written as it is
    formula = _written(function, wide, wanted, names)
    return confirmed(formula, function, wide, wanted, names, deadline=deadline)


def _written(function: type[torch.autograd.Function], args: list[Any], wanted: Sequence[bool], names: Sequence[str]
             ) -> Formula:  # fmt: skip
    tensors = {place: names[place] for place, arg in enumerate(args) if isinstance(arg, Tensor)}
    given = [arg.clone() if isinstance(arg, Tensor) else arg for arg in args]
    return formula_of(record(function, given, wanted, names), tensors)


def _raised(arg: Any) -> Any:
    if isinstance(arg, Tensor):
        if arg.layout is not torch.strided:
            raise NoFormula("a sparse tensor")
        wide = torch.complex128 if arg.is_complex() else torch.float64 if arg.is_floating_point() else arg.dtype
        return arg.detach().to(wide, copy=True)
    return arg
