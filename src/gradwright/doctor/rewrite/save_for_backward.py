"""A tensor kept as an attribute of ctx is saved by ``ctx.save_for_backward`` instead, and unpacked where it is read."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gradwright.doctor.rewrite.function_text import FunctionText
from gradwright.doctor.rewrite.saved_tensors import read_saved, write_saved
from gradwright.doctor.rewrite.source_text import DeclinedError, SourceText
from gradwright.doctor.session.facts import Fact, TensorOnContext
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.proposal import Proposal


def save_for_backward(finding: Finding, facts: Sequence[Fact], source: SourceText) -> tuple[Proposal, ...]:
    """One candidate for all tensors that a Function parks on ctx. Raises: DeclinedError."""
    attributes = [fact.attribute for fact in facts if isinstance(fact, TensorOnContext) and fact.id in finding.evidence]
    function = FunctionText(source, finding.location.line)
    saved = read_saved(function)
    values = [function.splices.of(one) for one in saved.call.args] if saved.call is not None else []
    names = list(saved.names) if saved.unpacked is not None else []
    if saved.call is not None and saved.unpacked is None:
        raise DeclinedError("what is saved is never unpacked")
    parked: list[ast.Assign] = []
    for attribute in dict.fromkeys(attributes):
        assign = _parked(function, attribute)
        value = function.splices.of(assign.value)
        name = names[values.index(value)] if value in values else _read_as(function, attribute, value, names)
        if value not in values:
            values.append(value)
            names.append(name)
        _reads(function, attribute, name)
        parked.append(assign)
    if not parked:
        raise DeclinedError("nothing is parked on ctx")
    if saved.call is None:
        first, *others = parked
        ctx = function.ctx(function.keeping)
        function.splices.replace(first, f"{ctx}.save_for_backward({', '.join(values)})")
    else:
        others = parked
    for assign in others:
        function.drop(assign)
    write_saved(function, saved, values, names)
    told = ", ".join(f"ctx.{attribute}" for attribute in dict.fromkeys(attributes))
    return (function.proposal("save_for_backward", f"ctx.save_for_backward keeps what {told} held"),)


def _parked(function: FunctionText, attribute: str) -> ast.Assign:
    """The one statement ``ctx.attribute = name``."""
    found = list(function.attributes(function.keeping, attribute))
    assign = function.splices.parent(found[0]) if len(found) == 1 else None
    if (
        not isinstance(assign, ast.Assign)
        or len(assign.targets) != 1
        or assign.targets[0] is not found[0]
        or assign not in function.keeping.body
        or not isinstance(assign.value, ast.Name)
    ):
        raise DeclinedError(f"ctx.{attribute} is not set once, to a tensor that has a name")
    after = [statement for statement in function.keeping.body if statement.lineno > assign.lineno]
    if any(isinstance(node, ast.Name) and node.id == assign.value.id and not isinstance(node.ctx, ast.Load)
           for statement in after for node in ast.walk(statement)):  # fmt: skip
        raise DeclinedError(f"{assign.value.id} gets another value")
    return assign


def _read_as(function: FunctionText, attribute: str, value: str, taken: Sequence[str]) -> str:
    """The name that the tensor gets in the backward: the one it has there, that of the forward, or the attribute's."""
    backward = function.backward
    for node in function.attributes(backward, attribute):
        assign = function.splices.parent(node)
        if isinstance(assign, ast.Assign) and len(assign.targets) == 1 and isinstance(assign.targets[0], ast.Name):
            name = assign.targets[0].id
            bound = [n for n in ast.walk(backward) if isinstance(n, ast.Name) and n.id == name]
            if sum(not isinstance(n.ctx, ast.Load) for n in bound) == 1 and assign in backward.body:
                return name
    for name in (value, attribute, f"saved_{value}"):
        if name not in function.names(backward) and name not in taken:
            return name
    raise DeclinedError(f"no name is free for ctx.{attribute}")


def _reads(function: FunctionText, attribute: str, name: str) -> None:
    """``ctx.attribute`` as ``name``; ``name = ctx.attribute`` goes."""
    for node in function.attributes(function.backward, attribute):
        if not isinstance(node.ctx, ast.Load):
            raise DeclinedError(f"the backward changes ctx.{attribute}")
        assign = function.splices.parent(node)
        if isinstance(assign, ast.Assign) and [function.splices.of(one) for one in assign.targets] == [name]:
            function.drop(assign)
        else:
            function.splices.replace(node, name)
