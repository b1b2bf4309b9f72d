"""A custom Function, tried on its specimens: gradient, contract, cost. Each step in a forked child of its own."""

from __future__ import annotations

import inspect
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from torch import Tensor

from gradwright import checking
from gradwright.checking.chance import signed
from gradwright.checking.context import run_backward, run_forward
from gradwright.doctor.observed import FunctionUse, Kept
from gradwright.doctor.probe.attempts import Limits, attempt
from gradwright.doctor.probe.boundaries import undefined_gradients_of_function
from gradwright.doctor.probe.collectives import talks_to_processes
from gradwright.doctor.probe.costs import Measured, extrapolate, loop_facts, operations_fact
from gradwright.doctor.probe.expressions import expressions_of_function
from gradwright.doctor.probe.flaws import flaw_facts
from gradwright.doctor.probe.keeping import keeping_facts
from gradwright.doctor.probe.numpy_detours import numpy_of_function
from gradwright.doctor.probe.recomputing import recomputing_facts
from gradwright.doctor.probe.shrink import describe, elements, fresh
from gradwright.doctor.probe.sizing import Sizes, sizes
from gradwright.doctor.probe.tracing import Trace, distinct_bytes, trace
from gradwright.doctor.probe.unneeded import unneeded_facts
from gradwright.doctor.probe.verdicts import verdict_facts
from gradwright.doctor.session.facts import (
    Fact,
    GradientCount,
    Mutated,
    PlainTwin,
)
from gradwright.doctor.session.model import NotExamined
from gradwright.doctor.source.effects import lasting_effect
from gradwright.doctor.source.places import text_of_file

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
    for kept in tracked:
        # One after the other: the caller looks at the time after each fact.
        yield from _values(use, kept, first if kept is tracked[0] else sizes(use, kept, limits), limits)
    if use.subject.origin != "library":
        args = first.values
        yield from flaw_facts(use, tracked[0], args, describe(args), _used_outputs(tracked[0]), limits)
    yield from _costs(use, tracked[0], first, share, limits)
    if use.subject.origin != "library":
        yield from expressions_of_function(use, tracked[0], share, limits)
        yield from numpy_of_function(use, tracked[0], share)
        yield from undefined_gradients_of_function(use, tracked[0], limits)
        yield from keeping_facts(use, tracked[0], limits)
        yield from recomputing_facts(use, tracked[0], limits)
        yield from unneeded_facts(use, tracked, share, limits)


def _lasting_effect(use: FunctionUse) -> str:
    try:
        path = inspect.getsourcefile(inspect.unwrap(use.function))
    except (OSError, TypeError):
        return ""
    return lasting_effect(text_of_file(path), use.subject.location.line) if path else ""


def _contract(use: FunctionUse, kept: Kept, chosen: Sizes, limits: Limits) -> Iterator[Fact | NotExamined]:
    subject = use.subject.id
    args = chosen.values
    count = attempt(lambda: checking.count_gradients(use.function, args, kept.wanted), limits)
    if count.value is not None:
        expected, returned = count.value
        yield GradientCount(id=f"count {subject}", subject=subject, expected=expected, returned=returned)
    mutations = attempt(lambda: checking.find_mutations(use.function, args, kept.wanted), limits)
    if mutations.how == "returned":
        for number, mutation in enumerate(mutations.value or ()):
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
        yield NotExamined(f"whether {use.subject.name} changes its inputs", mutations.why)


def _cotangent_name(use: FunctionUse, mutation: checking.Mutation) -> str:
    """As the backward's signature calls it."""
    try:
        parameters = list(inspect.signature(use.function.backward).parameters.values())[1:]
    except (TypeError, ValueError):
        return mutation.name
    plain = [item.name for item in parameters if item.kind is not inspect.Parameter.VAR_POSITIONAL]
    return plain[mutation.index] if 0 <= mutation.index < len(plain) else mutation.name


def _values(use: FunctionUse, kept: Kept, size: Sizes, limits: Limits) -> Iterator[Fact | NotExamined]:
    args, tried_on = size.values, describe(size.values)
    work = _value_work(use, args, kept, limits)
    judged = attempt(work, Limits(limits.seconds + 2.0, limits.memory_bytes))
    if judged.how != "returned":
        yield NotExamined(f"the gradient of {use.subject.name} on {tried_on}", judged.why)
    yield from verdict_facts(judged.value or (), subject=use.subject.id, specimen=kept.about.id, tried_on=tried_on)


def _value_work(use: FunctionUse, args: tuple[Any, ...], kept: Kept, limits: Limits) -> Callable[[], Any]:
    def work() -> Any:
        until = time.monotonic() + limits.seconds
        return checking.judge_values(
            use.function,
            args,
            kept.wanted,
            deadline=until,
            outputs=_used_outputs(kept),
            received=kept.cotangents,
            nested=use.nested,
        )

    return work


def _used_outputs(kept: Kept) -> tuple[bool, ...] | None:
    """Which outputs really received a cotangent in the run; ``None`` if no backward was seen, or only zeros."""
    if kept.cotangents is None:
        return None
    used = tuple(item is not None and bool(torch.any(item != 0)) for item in kept.cotangents)
    return used if any(used) else None


def _costs(use: FunctionUse, kept: Kept, chosen: Sizes, share: Callable[[float], float], limits: Limits
           ) -> Iterator[Fact | NotExamined]:  # fmt: skip
    traced = attempt(lambda: _trace_both(use, kept, chosen, share), limits)
    if traced.how != "returned" or traced.value is None:
        yield NotExamined(f"the cost of {use.subject.name} per line", traced.why)
        return
    yield from traced.value
    if chosen.smaller is None and use.subject.origin != "library":
        twin = attempt(lambda: _beside_plain(use, kept), limits)
        if twin.how == "returned" and twin.value is not None:
            yield twin.value


def _trace_both(use: FunctionUse, kept: Kept, chosen: Sizes, share: Callable[[float], float]
                ) -> list[Fact]:  # fmt: skip
    args = chosen.traced
    forward, backward, bytes_forward, bytes_backward = _traces(use.function, args, kept.wanted)
    smaller = None if chosen.smaller is None else _traces(use.function, chosen.smaller, kept.wanted)[:2]
    facts: list[Fact] = []
    for number, (found, minimum) in enumerate(((forward, bytes_forward), (backward, bytes_backward))):
        calls = use.backward_calls if number else use.forward_calls
        total = use.backward_seconds if number else use.forward_seconds
        operations = None
        if smaller is not None and chosen.smaller is not None:
            few = (elements(chosen.smaller), smaller[number].operations)
            operations = extrapolate(few, (elements(args), found.operations), elements(kept.args))
        measured = Measured(
            subject=use.subject.id,
            phase="backward" if number else "forward",
            seconds=total / max(1, calls),
            share=share(total),
            tried_on=describe(args),
            minimum_bytes=minimum,
            full_operations=operations,
        )
        facts.append(operations_fact(found, measured))
        facts.extend(loop_facts(found, measured))
    return facts


def _traces(function: type[Any], args: tuple[Any, ...], wanted: tuple[bool, ...]) -> tuple[Trace, Trace, int, int]:
    held: dict[str, Any] = {}
    given = fresh(args)

    def go_forward() -> None:
        held["outputs"], held["context"] = run_forward(function, given, wanted)

    forward = trace(go_forward, seconds=2.0)
    if not forward.complete:
        return forward, Trace(complete=False), 0, 0
    outputs = held["outputs"] if isinstance(held["outputs"], tuple) else (held["outputs"],)
    generator = torch.Generator().manual_seed(0)
    cotangents = tuple(
        signed(out.shape, generator).to(out.device, out.dtype)
        if isinstance(out, Tensor) and out.is_floating_point()
        else (torch.zeros_like(out) if isinstance(out, Tensor) else None)
        for out in outputs
    )

    def go_backward() -> None:
        held["gradients"] = run_backward(function, held["context"], cotangents)

    backward = trace(go_backward, seconds=2.0)
    saved = getattr(held["context"], "saved_tensors", ())
    return (
        forward,
        backward,
        distinct_bytes(given, outputs, saved),
        distinct_bytes(cotangents, saved, held.get("gradients")),
    )


def _beside_plain(use: FunctionUse, kept: Kept) -> PlainTwin | None:
    """Forward and backward of the Function and of plain autograd through its forward, interleaved."""
    twin = checking.plain_twin(use.function, kept.args, kept.wanted, deadline=time.monotonic() + 2.0)
    if not twin.same_gradient:
        return None
    rounds: tuple[list[float], list[float]] = ([], [])
    until = time.monotonic() + 1.0
    while len(rounds[0]) < 5 or (time.monotonic() < until and len(rounds[0]) < 200):
        for seconds, call in zip(rounds, (twin.function_step, twin.plain_step), strict=True):
            started = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - started)
        if time.monotonic() > until + 2.0:
            break
    return PlainTwin(
        id=f"plain {use.subject.id}",
        subject=use.subject.id,
        same_gradient=twin.same_gradient,
        function_seconds=statistics.median(rounds[0]),
        plain_seconds=statistics.median(rounds[1]),
        function_saved_bytes=checking.saved_bytes(twin.function_forward),
        plain_saved_bytes=checking.saved_bytes(twin.plain_forward),
        tried_on=describe(kept.args),
    )
