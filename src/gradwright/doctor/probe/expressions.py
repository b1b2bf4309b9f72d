"""Suspicious expressions of a function, measured at the inputs of a real call: what they move, make and take."""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

import torch
from torch import Tensor

from gradwright.checking.chance import reproducible, signed
from gradwright.checking.context import run_backward, run_forward
from gradwright.doctor.observed import FunctionUse, Kept
from gradwright.doctor.probe.attempts import Limits, attempt
from gradwright.doctor.probe.measures import MEASURES
from gradwright.doctor.probe.operations import Body, quickest, watch_body
from gradwright.doctor.probe.shrink import describe, fresh
from gradwright.doctor.session.facts import CostlyExpression, Fact, Phase
from gradwright.doctor.session.model import Subject
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.expressions import Suspect, function_at, suspects
from gradwright.doctor.source.files import Columns
from gradwright.doctor.source.places import is_user_file, relative, text_of_file
from gradwright.doctor.source.statements import Origins
from gradwright.ground import clock

_RUNS, _ENOUGH_SECONDS = 5, 1.0


@dataclass(frozen=True)
class _Part:
    """One of the user's functions with its suspects. ``share``: of the watched time that it took."""

    phase: Phase
    code: CodeType
    text: str
    found: tuple[Suspect, ...]
    share: float = 1.0


def expressions_of_function(
    use: FunctionUse, kept: Kept, share: Callable[[float], float], limits: Limits
) -> Iterator[Fact]:
    """Facts about expressions of a Function's forward and backward. Nothing is run where the text is innocent."""
    parts = [
        _suspicious("forward", use.function.forward, share(use.forward_seconds)),
        _suspicious("backward", use.function.backward, share(use.backward_seconds)),
    ]
    if not any(part.found for part in parts if part):
        return

    def measure() -> list[Fact]:
        codes = {part.phase: part.code for part in parts if part and part.found}
        bodies = _several(lambda: _bodies(use.function, kept, codes))
        return [
            fact
            for part in parts
            if part and part.phase in bodies
            for fact in _facts(use.subject.id, part, bodies[part.phase], describe(kept.args))
        ]

    yield from attempt(measure, limits).value or ()


def expressions_of_callable(subject: Subject, fn: Any, inputs: tuple[Any, ...], limits: Limits) -> Iterator[Fact]:
    """The same of a plain function, or of a module's ``forward``, at ``inputs``. It is run without gradients."""
    part = _suspicious("forward", fn.forward if isinstance(fn, torch.nn.Module) else fn, 1.0)
    if part is None or not part.found:
        return

    def measure() -> list[Fact]:
        def once() -> dict[Phase, Body]:
            given = fresh(inputs)
            with reproducible(0), torch.no_grad():
                return {part.phase: watch_body(part.code, lambda: fn(*given))}

        return list(_facts(subject.id, part, _several(once)[part.phase], describe(inputs)))

    yield from attempt(measure, limits).value or ()


def _suspicious(phase: Phase, method: Any, share: float) -> _Part | None:
    code = getattr(inspect.unwrap(method), "__code__", None)
    if not isinstance(code, CodeType) or not is_user_file(code.co_filename):
        return None
    text = text_of_file(code.co_filename)
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None  # another text than the one that was compiled
    node = function_at(tree, code.co_name, code.co_firstlineno)
    return None if node is None else _Part(phase, code, text, tuple(suspects(node, Origins(tree))), share)


def _several(once: Callable[[], dict[Phase, Body]]) -> dict[Phase, Body]:
    """Several runs, or one where that takes long: single ones are disturbed by whatever else the machine does."""
    until = clock.now() + _ENOUGH_SECONDS
    runs = [once()]
    while len(runs) < _RUNS and clock.now() < until:
        again = once()
        # Times are all that is wanted of the others: their tensors go.
        for body in again.values():
            body.operations[:] = [replace(step, args=(), given=(), made=()) for step in body.operations]
        runs.append(again)
    return {phase: quickest([run[phase] for run in runs]) for phase in runs[0]}


def _bodies(function: Any, kept: Kept, codes: dict[Phase, CodeType]) -> dict[Phase, Body]:
    """Forward, then backward with a cotangent of signed numbers. Raises what they raise."""
    held: dict[str, Any] = {}
    found: dict[Phase, Body] = {}
    given = fresh(kept.args)

    def go_forward() -> None:
        held["outputs"], held["context"] = run_forward(function, given, kept.wanted)

    def go_backward() -> None:
        run_backward(function, held["context"], cotangents)

    with reproducible(0), torch.no_grad():
        if "forward" in codes:
            found["forward"] = watch_body(codes["forward"], go_forward)
        else:
            go_forward()
        if "backward" not in codes:
            return found
        outputs = held["outputs"] if isinstance(held["outputs"], tuple) else (held["outputs"],)
        generator = torch.Generator().manual_seed(0)
        cotangents = tuple(
            signed(out.shape, generator).to(out.device, out.dtype)
            if isinstance(out, Tensor) and out.is_floating_point()
            else (torch.zeros_like(out) if isinstance(out, Tensor) else None)
            for out in kept.with_cotangent(outputs)
        )
        found["backward"] = watch_body(codes["backward"], go_backward)
    return found


def _facts(subject: str, part: _Part, body: Body, tried_on: str) -> Iterator[CostlyExpression]:
    columns = Columns(part.text)
    total = sum(operation.seconds for operation in body.operations)
    for suspect in part.found:
        measured = MEASURES[suspect.pattern](suspect, body)
        if measured is None:
            continue
        span = columns.span(suspect.node)
        at = Location(relative(part.code.co_filename), span.line, span.column, span.end_line, span.end_column)
        share = measured.seconds / total if total else 0.0
        yield CostlyExpression(
            id=f"{suspect.pattern} {part.phase} {at}:{at.column} {subject}",
            subject=subject,
            phase=part.phase,
            pattern=suspect.pattern,
            location=at,
            text=" ".join((ast.get_source_segment(part.text, suspect.node) or "").split()),
            bytes=measured.bytes,
            minimum_bytes=measured.minimum_bytes,
            extra_bytes=measured.extra_bytes,
            share_of_phase=share,
            share_of_step=part.share * share if math.isfinite(part.share) else 0.0,
            tried_on=tried_on,
            shapes=measured.shapes,
            first=_first(suspect, columns, at.path),
            wide_part=measured.wide_part,
            spoilt=measured.spoilt,
        )


def _first(suspect: Suspect, columns: Columns, path: str) -> Location | None:
    """Where a value that is computed again was computed first."""
    if suspect.pattern != "recomputed":
        return None
    span = columns.span(suspect.parts[0])
    return Location(path, span.line, span.column, span.end_line, span.end_column)
