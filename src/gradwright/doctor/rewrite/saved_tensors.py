"""What a Function saves for its backward, as text: the call of ``save_for_backward`` and where it is unpacked."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from gradwright.doctor.rewrite.function_text import FunctionText
from gradwright.doctor.rewrite.source_text import DeclinedError


@dataclass(frozen=True)
class Saved:
    """``call``: ``ctx.save_for_backward(...)``, None if nothing is saved; ``unpacked``: ``a, b = ctx.saved_tensors``.

    ``names``: what the backward calls the saved tensors, one by one.
    """

    call: ast.Call | None
    unpacked: ast.Assign | None
    names: tuple[str, ...]


def read_saved(function: FunctionText) -> Saved:
    """Raises: DeclinedError, where tensors are saved or unpacked in several places, or not one by one."""
    calls = [
        parent
        for node in function.attributes(function.keeping, "save_for_backward")
        if isinstance(parent := function.splices.parent(node), ast.Call)
    ]
    reads = list(function.attributes(function.backward, "saved_tensors"))
    if len(calls) > 1 or len(reads) > 1:
        raise DeclinedError("tensors are saved, or unpacked, in several places")
    call = calls[0] if calls else None
    if call is not None:
        statement = function.splices.parent(call)
        plain = isinstance(statement, ast.Expr) and statement in function.keeping.body
        if not plain or call.keywords or any(isinstance(one, ast.Starred) for one in call.args):
            raise DeclinedError("what is saved is not written out, or saved under a condition")
    if not reads:
        return Saved(call, None, ())
    assign = function.splices.parent(reads[0])
    target = assign.targets[0] if isinstance(assign, ast.Assign) and len(assign.targets) == 1 else None
    if not isinstance(target, (ast.Tuple, ast.List)) or not all(isinstance(one, ast.Name) for one in target.elts):
        raise DeclinedError("what is saved is not unpacked one by one")
    assert isinstance(assign, ast.Assign)
    names = tuple(one.id for one in target.elts if isinstance(one, ast.Name))
    if call is None or len(call.args) != len(names) or assign not in function.backward.body:
        raise DeclinedError("what is saved and what is unpacked are not of one number")
    return Saved(call, assign, names)


def write_saved(function: FunctionText, saved: Saved, values: list[str], names: list[str]) -> None:
    """Save ``values`` and unpack them as ``names``, where that was done before, or where nothing was."""
    splices = function.splices
    joined = f"({names[0]},)" if len(names) == 1 else ", ".join(names)
    if saved.call is not None:
        statement = function.statement_of(saved.call)
        if not values:
            function.drop(statement)
        else:
            start = splices.span(saved.call.func)[1]
            splices.replace_span(start, splices.span(saved.call)[1], f"({', '.join(values)})")
    if saved.unpacked is not None:
        if not names:
            function.drop(saved.unpacked)
        else:
            start = splices.span(saved.unpacked)[0]
            splices.replace_span(start, splices.span(saved.unpacked.value)[0], f"{joined} = ")
    elif names:
        ctx = function.ctx(function.backward)
        function.before(function.first_statement(function.backward), f"{joined} = {ctx}.saved_tensors")
