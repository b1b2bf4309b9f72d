"""A custom Function, tried on its specimens: gradient, contract, cost. Each step in a forked child of its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from gradwright import checking
from gradwright.doctor.observed import FunctionUse, Kept
from gradwright.doctor.probe.attempts import Limits, attempt
from gradwright.doctor.probe.boundaries import undefined_gradients_of_function
from gradwright.doctor.probe.collectives import talks_to_processes
from gradwright.doctor.probe.counterexamples import counterexamples
from gradwright.doctor.probe.expressions import expressions_of_function
from gradwright.doctor.probe.flaws import flaw_facts
from gradwright.doctor.probe.formula import formula_facts
from gradwright.doctor.probe.function_costs import costs_of_function
from gradwright.doctor.probe.judged import Judged
from gradwright.doctor.probe.keeping import keeping_facts
from gradwright.doctor.probe.numpy_detours import numpy_of_function
from gradwright.doctor.probe.recomputing import recomputing_facts
from gradwright.doctor.probe.shrink import describe
from gradwright.doctor.probe.sizing import Sizes, sizes
from gradwright.doctor.probe.unneeded import unneeded_facts
from gradwright.doctor.probe.verdicts import BESIDE_VALUE, verdict_facts
from gradwright.doctor.session.facts import (
    Fact,
    GradientCount,
    Mutated,
)
from gradwright.doctor.session.model import NotExamined
from gradwright.doctor.source.effects import lasting_effect
from gradwright.doctor.source.places import text_of_file
from gradwright.ground import clock

T = TypeVar("T")


def probe_function(use: FunctionUse, specimens: list[Kept], share: Callable[[float], float], limits: Limits
                   ) -> Iterator[Fact | NotExamined]:  # fmt: skip
    """Facts about one Function, as they come to be known; what can't be tried comes out as not examined."""
    tracked = [kept for kept in specimens if any(kept.wanted)]
    name = use.subject.name
    if not tracked:
        why = "no specimen could be kept" if use.tracked_calls else "none of its calls could receive a gradient"
        if use.transformed_calls:
            why = "it was called under torch.func transforms only, whose tensors can't be kept"
        yield NotExamined(f"the gradient of {name}", why)
        return
    if talks_to_processes(use.function):
        yield NotExamined(f"the gradient of {name}", "it talks to other processes, so it is not replayed")
        return
    effect = _lasting_effect(use)
    if effect:
        yield NotExamined(f"the gradient of {name}", f"it {effect}, so it is not replayed")
        return
    first = sizes(use, tracked[0], limits)
    yield from _contract(use, tracked[0], first, limits)
    judged = Judged(use)
    for kept in tracked:
        # One after the other: the caller looks at the time after each fact.
        size = first if kept is tracked[0] else sizes(use, kept, limits)
        yield from judged.seen(
            kept, size.values, _values(use, kept, size, _untried(use, kept, tracked[0], first), limits)
        )
    if use.subject.origin != "library":
        args = first.values
        verdicts = judged.on(tracked[0])
        yield from flaw_facts(use, tracked[0], args, describe(args), tracked[0].used_outputs, verdicts, limits)
    yield from costs_of_function(use, tracked[0], first, share, judged, limits)
    if use.subject.origin != "library":
        yield from expressions_of_function(use, tracked[0], share, limits)
        yield from numpy_of_function(use, tracked[0], share)
        yield from undefined_gradients_of_function(use, tracked[0], limits)
        yield from keeping_facts(use, tracked[0], limits)
        yield from recomputing_facts(use, tracked[0], limits)
        yield from unneeded_facts(use, tracked, share, limits)
        yield from counterexamples(judged, limits)
        yield from formula_facts(use, *judged.smallest(tracked[0], first.values), limits)


def _lasting_effect(use: FunctionUse) -> str:
    try:
        path = inspect.getsourcefile(inspect.unwrap(use.function))
    except (OSError, TypeError):
        return ""
    return lasting_effect(text_of_file(path), use.subject.location.line) if path else ""


def _contract(use: FunctionUse, kept: Kept, chosen: Sizes, limits: Limits) -> Iterator[Fact | NotExamined]:
    subject = use.subject.id
    args = chosen.values
    given = use.function, args, kept.wanted
    outcome = attempt(lambda: (checking.count_gradients(*given), checking.find_mutations(*given)), limits)
    if outcome.value is not None:
        count, mutations = outcome.value
        if count is not None:
            yield GradientCount(id=f"count {subject}", subject=subject, expected=count[0], returned=count[1])
        for number, mutation in enumerate(mutations):
            yield Mutated(
                id=f"mutation {number} {subject}",
                subject=subject,
                phase=mutation.phase,
                what=mutation.what,
                name=_cotangent_name(use, mutation) if mutation.what == "cotangent" else mutation.name,
                declared=mutation.declared,
                specimen=kept.about.id,
            )
    else:
        yield NotExamined(f"whether {use.subject.name} changes its inputs", outcome.why)


def _cotangent_name(use: FunctionUse, mutation: checking.Mutation) -> str:
    """As the backward's signature calls it."""
    backward = use.function.backward
    without_ctx = 0 if inspect.unwrap(backward) is not backward else 1  # a custom_gradient's takes none
    try:
        parameters = list(inspect.signature(backward).parameters.values())[without_ctx:]
    except (TypeError, ValueError):
        return mutation.name
    plain = [item.name for item in parameters if item.kind is not inspect.Parameter.VAR_POSITIONAL]
    return plain[mutation.index] if 0 <= mutation.index < len(plain) else mutation.name


def _untried(use: FunctionUse, kept: Kept, first: Kept, size: Sizes) -> tuple[tuple[str, str], ...]:
    """What is not tried on a specimen because it is another one's, or a library's."""
    if use.subject.origin == "library":
        return ((BESIDE_VALUE, "of a library's Function the value alone is checked"),)
    return () if kept is first else ((BESIDE_VALUE, f"made on another specimen, {describe(size.values)}"),)


def _values(
    use: FunctionUse, kept: Kept, size: Sizes, untried: tuple[tuple[str, str], ...], limits: Limits
) -> Iterator[Fact | NotExamined]:
    args, tried_on = size.values, describe(size.values)
    work = _value_work(use, args, kept, limits)
    judged = attempt(work, Limits(limits.seconds + 2.0, limits.memory_bytes))
    if judged.how != "returned":
        yield NotExamined(f"the gradient of {use.subject.name} on {tried_on}", judged.why)
    yield from verdict_facts(
        judged.value or (), subject=use.subject.id, specimen=kept.about.id, tried_on=tried_on, untried=untried
    )


def _value_work(use: FunctionUse, args: tuple[Any, ...], kept: Kept, limits: Limits) -> Callable[[], Any]:
    def work() -> Any:
        until = clock.now() + limits.seconds
        return checking.judge_values(
            use.function,
            args,
            kept.wanted,
            deadline=until,
            outputs=kept.used_outputs,
            received=kept.cotangents,
            nested=use.nested,
        )

    return work
