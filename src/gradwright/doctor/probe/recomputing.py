"""How many bytes a Function saves, and how many would do if it computed again what is cheap. One forward."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import torch
from torch import Tensor

from gradwright.checking.chance import reproducible
from gradwright.checking.context import run_forward
from gradwright.doctor.observed import FunctionUse, Kept
from gradwright.doctor.probe.attempts import Limits, attempt
from gradwright.doctor.probe.shrink import describe, fresh
from gradwright.doctor.session.facts import Fact, SavedTooMuch
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.files import Columns
from gradwright.doctor.source.kept import kept_in_text
from gradwright.doctor.source.places import relative, text_of_file
from gradwright.doctor.source.recomputed import Recomputed, recomputable
from gradwright.ground.syntax import shortened


def recomputing_facts(use: FunctionUse, kept: Kept, limits: Limits) -> Iterator[Fact]:
    """Where what could be computed again is something. Cost: one forward, in a forked child."""
    path = inspect.getsourcefile(inspect.unwrap(use.function.forward))
    text = text_of_file(path) if path else ""
    line = use.subject.location.line
    found, saved = (recomputable(text, line), kept_in_text(text, line)) if text else (None, None)
    if path is None or found is None or saved is None:
        return
    parameters = list(inspect.signature(use.function.forward).parameters)[1:]
    measured = attempt(lambda: _measured(use, kept, found, parameters), limits)
    if measured.how != "returned" or measured.value is None:
        return
    positions, bytes_now, bytes_needed, given = measured.value
    if not positions:
        return
    span = Columns(text).span(saved.saved[min(positions)].node)
    yield SavedTooMuch(
        id=f"saved too much {use.subject.id}",
        subject=use.subject.id,
        names=tuple(found.names[position] for position in positions),
        inputs=found.inputs,
        statements=tuple(shortened(statement) for statement in found.statements),
        bytes=bytes_now,
        needed_bytes=bytes_needed,
        given_bytes=given,
        location=Location(relative(path), span.line, span.column, span.end_line, span.end_column),
        tried_on=describe(kept.args),
    )


def _measured(
    use: FunctionUse, kept: Kept, found: Recomputed, parameters: list[str]
) -> tuple[list[int], int, int, int] | None:
    """Positions of what could go (it lives nowhere else), the bytes that are saved, would be, and are given."""
    with reproducible(0), torch.no_grad():
        args = fresh(kept.args)
        outputs, context = run_forward(use.function, args, kept.wanted)
    named = dict(zip(parameters, args, strict=False))
    sources = [named.get(name) for name in found.inputs]
    if not all(isinstance(one, Tensor) for one in sources):
        return None
    results = outputs if isinstance(outputs, tuple) else (outputs,)
    elsewhere = {_storage(one) for one in (*args, *results) if isinstance(one, Tensor)}
    tensors = {number: value for number, value in enumerate(context.to_save) if isinstance(value, Tensor)}
    positions = [one for one in found.names if one in tensors and _storage(tensors[one]) not in elsewhere]
    now = {_storage(value): value.nbytes for value in tensors.values()}
    needed = {_storage(value): value.nbytes for number, value in tensors.items() if number not in positions}
    needed |= {_storage(one): one.nbytes for one in sources if isinstance(one, Tensor)}
    given = sum({_storage(one): one.nbytes for one in args if isinstance(one, Tensor)}.values())
    return positions, sum(now.values()), sum(needed.values()), given


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
