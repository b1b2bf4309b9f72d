"""What a Function keeps for its backward: tensors on ctx, tensors saved in vain. One forward on a specimen."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from gradwright.checking.chance import reproducible
from gradwright.checking.context import run_forward
from gradwright.doctor.observed import FunctionUse, Kept
from gradwright.doctor.probe.attempts import Limits, attempt
from gradwright.doctor.probe.shrink import describe, fresh
from gradwright.doctor.session.facts import Fact, SavedNotNeeded, TensorOnContext
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.files import Columns
from gradwright.doctor.source.kept import KeptText, kept_in_text
from gradwright.doctor.source.places import relative, text_of_file

Role = Literal["input", "output", "intermediate"]


def keeping_facts(use: FunctionUse, kept: Kept, limits: Limits) -> Iterator[Fact]:
    """Facts about what the text says is kept, with the bytes of a real call. Cost: one forward, in a forked child."""
    path = inspect.getsourcefile(inspect.unwrap(use.function.forward))
    text = text_of_file(path) if path else ""
    found = kept_in_text(text, use.subject.location.line) if text else None
    if path is None or found is None or not (found.set or any(one.use != "values" for one in found.saved)):
        return
    measured = attempt(lambda: _measured(use, kept, found), limits)
    if measured.how == "returned" and measured.value is not None:
        columns = Columns(text)
        parked, saved, total = measured.value
        for attribute, (role, size) in parked.items():
            span = columns.span(found.set[attribute])
            yield TensorOnContext(
                id=f"on ctx {attribute} {use.subject.id}",
                subject=use.subject.id,
                attribute=attribute,
                role=role,
                bytes=size,
                location=Location(relative(path), span.line, span.column, span.end_line, span.end_column),
                tried_on=describe(kept.args),
            )
        for one in found.saved:
            if one.use == "values" or one.position not in saved:
                continue
            span = columns.span(one.node)
            part, size = saved[one.position]
            yield SavedNotNeeded(
                id=f"saved in vain {one.name} {use.subject.id}",
                subject=use.subject.id,
                name=one.name,
                use=one.use,
                role=part,
                bytes=size,
                share=size / max(total, 1),
                location=Location(relative(path), span.line, span.column, span.end_line, span.end_column),
                tried_on=describe(kept.args),
            )


def _measured(
    use: FunctionUse, kept: Kept, found: KeptText
) -> tuple[dict[str, tuple[Literal["input", "output"], int]], dict[int, tuple[Role, int]], int]:
    """Inputs and outputs on ctx, by attribute; saved tensors, by position; the bytes of all that are saved."""
    with reproducible(0), torch.no_grad():
        args = fresh(kept.args)
        outputs, context = run_forward(use.function, args, kept.wanted)
    results = outputs if isinstance(outputs, tuple) else (outputs,)
    parked: dict[str, tuple[Literal["input", "output"], int]] = {}
    for attribute in found.set:
        value = getattr(context, attribute, None)
        if isinstance(value, Tensor) and value.is_floating_point():
            role = _role(value, args, results)
            if role != "intermediate":
                parked[attribute] = ("output" if role == "output" else "input", value.nbytes)
    tensors = {number: value for number, value in enumerate(context.to_save) if isinstance(value, Tensor)}
    total = sum({value.untyped_storage().data_ptr(): value.nbytes for value in tensors.values()}.values())
    return parked, {number: (_role(value, args, results), value.nbytes) for number, value in tensors.items()}, total


def _role(value: Tensor, args: Sequence[Any], results: Sequence[Any]) -> Role:
    if any(value is one for one in results):
        return "output"
    return "input" if any(value is one for one in args) else "intermediate"
