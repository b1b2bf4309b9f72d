"""A tensor that is saved and that the backward does not need is not saved; where its shape is needed, the shape is."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gradwright.doctor.rewrite.function_text import FunctionText
from gradwright.doctor.rewrite.saved_tensors import read_saved, write_saved
from gradwright.doctor.rewrite.source_text import DeclinedError, SourceText
from gradwright.doctor.session.facts import Fact, SavedNotNeeded
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.proposal import Proposal


def drop_saved(finding: Finding, facts: Sequence[Fact], source: SourceText) -> tuple[Proposal, ...]:
    """One candidate for all tensors of a Function that are saved in vain. Raises: DeclinedError."""
    names = [fact.name for fact in facts if isinstance(fact, SavedNotNeeded) and fact.id in finding.evidence]
    function = FunctionText(source, finding.location.line)
    saved = read_saved(function)
    if saved.call is None:
        raise DeclinedError("nothing is saved")
    dropped = [position for position, name in enumerate(saved.names) if name in names]
    notes: list[str] = []
    for position in dropped:
        value = saved.call.args[position]
        notes += _noted(function, saved.names[position], value)
    ctx = function.ctx(function.keeping)
    statement = function.statement_of(saved.call)
    lines = [f"{ctx}.{note}" for note in dict.fromkeys(notes)]
    kept = [function.splices.of(one) for number, one in enumerate(saved.call.args) if number not in dropped]
    if not kept and lines:
        function.splices.replace(statement, ("\n" + function.indent_of(statement)).join(lines))
        write_saved(function, type(saved)(None, saved.unpacked, saved.names), [], [])
    else:
        write_saved(function, saved, kept, [name for number, name in enumerate(saved.names) if number not in dropped])
        if lines:
            function.before(statement, *lines)
    told = ", ".join(saved.names[position] for position in dropped)
    return (function.proposal("drop_saved", f"{told}, which the backward does not need, is not saved"),)


def _noted(function: FunctionText, name: str, value: ast.expr) -> list[str]:
    """What of a tensor is kept in its place, as assignments to attributes of ctx; its uses read those then."""
    backward, splices = function.backward, function.splices
    ctx = function.ctx(backward)
    text = splices.of(value)
    notes = []
    for node in ast.walk(backward):
        if not isinstance(node, ast.Name) or node.id != name or not isinstance(node.ctx, ast.Load):
            continue
        attribute = splices.parent(node)
        call = splices.parent(attribute) if attribute is not None else None
        if not isinstance(attribute, ast.Attribute):
            raise DeclinedError(f"{name} is used")
        if attribute.attr in ("shape", "dtype", "device"):
            notes.append(f"{name}_{attribute.attr} = {text}.{attribute.attr}")
            splices.replace(attribute, f"{ctx}.{name}_{attribute.attr}")
        elif attribute.attr in ("size", "dim") and isinstance(call, ast.Call) and call.func is attribute:
            notes.append(f"{name}_shape = {text}.shape")
            shape = f"{ctx}.{name}_shape"
            if attribute.attr == "dim":
                splices.replace(call, f"len({shape})")
            else:
                splices.replace(call, f"{shape}[{splices.of(call.args[0])}]" if call.args else shape)
        else:
            raise DeclinedError(f"{name} is used")
    if any(
        list(function.attributes(method, note.split(" ")[0]))
        for note in notes
        for method in (function.keeping, backward)
    ):
        raise DeclinedError("the name is taken on ctx")
    return notes
