"""A loop over rows whose body is pure but opaque, a call of a function or module: ``torch.vmap`` of that body.

vmap runs the body once, on all rows: it raises where the body draws random numbers or branches on values, but says
nothing of effects. Those are looked for in the text (``pure_calls``).
"""

from __future__ import annotations

import ast
import contextlib
import io
import textwrap
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass, replace

import libcst as cst

from gradwright.doctor.rewrite.kernels.buffers import Buffers, read_buffers
from gradwright.doctor.rewrite.loops.region import Region, region_of
from gradwright.doctor.rewrite.pure_calls import Purity
from gradwright.doctor.rewrite.row_body import RowBody, read_body
from gradwright.doctor.rewrite.source_text import BOM, DeclinedError, SourceText
from gradwright.doctor.session.proposal import Proposal
from gradwright.doctor.source.loops import LoopSite
from gradwright.doctor.source.seen import Seen
from gradwright.doctor.source.statements import Origins


@dataclass(frozen=True)
class Stack:
    """``torch.stack(rows, axis)`` in ``statement``, right behind the loop; ``created``: ``rows = []`` above it."""

    call: ast.Call
    statement: ast.stmt
    axis: int
    created: ast.stmt


def vmap_body(source: SourceText, site: LoopSite, seen: Seen) -> tuple[Proposal, ...]:
    """The loop at ``site`` as one call of ``torch.vmap``.

    Raises: DeclinedError, with one sentence for the user. Cost: a parse of the file.
    """
    region = region_of(source.text, site)
    tree = ast.parse(source.text.removeprefix(BOM))
    origins = Origins(tree)
    loop = region.node
    if not isinstance(loop, ast.For):
        raise DeclinedError("it is no loop over rows")
    torch = next((name for name, module in origins.names.items() if module == "torch"), "")
    if not torch:
        raise DeclinedError("the file does not import torch by name")
    around = region.function or tree
    names = frozenset(node.id for node in ast.walk(around) if isinstance(node, ast.Name))
    body = read_body(loop, seen, names)
    purity = Purity(tree, origins, seen)
    for node in body.computing:
        if isinstance(node, ast.Call):
            purity.check_call(node, frozenset(body.bound))
    behind = {node.id for one in region.tail for node in ast.walk(one) if isinstance(node, ast.Name)}
    late = sorted((behind | set(site.read_after)) & (body.bound | body.counters))
    if late:
        raise DeclinedError(f"{late[0]} is read after the loop, with the value of its last iteration")
    buffers = read_buffers(_function(around), loop)
    if body.filled:
        stack = _stack(region, around, body.filled, origins)
        lines, tail = _with_stack(source, body, stack, buffers, torch)
        return (_proposal(source, region, body, lines, stack, tail),)
    lines = _with_store(source, body, buffers, seen, torch)
    return (_proposal(source, region, body, lines, None, []),)


def _function(around: ast.AST) -> ast.FunctionDef:
    """The script's own body counts as a function without parameters."""
    if isinstance(around, ast.FunctionDef):
        return around
    (function,) = ast.parse("def body(): pass").body
    assert isinstance(function, ast.FunctionDef)
    function.body = getattr(around, "body", [])
    return function


# --- what is written -------------------------------------------------------------------------------------------------


def _mapped(body: RowBody, buffers: Buffers, torch: str, axis: int) -> str:
    """``torch.vmap(f)(x)``."""
    options = []
    if any(argument is None for _, argument in body.arguments):
        options.append(f"in_dims=({', '.join('None' if rows is None else '0' for _, rows in body.arguments)})")
    if axis:
        options.append(f"out_dims={axis}")
    given = ", ".join(text if rows is None else _rows(rows, body, buffers) for text, rows in body.arguments)
    return f"{torch}.vmap({', '.join([body.function, *options])})({given})"


def _rows(base: str, body: RowBody, buffers: Buffers) -> str:
    """The rows that the loop visits: all of them by the text, or a slice."""
    if body.stop is None:
        return base
    whole = {f"len({base})", f"{base}.shape[0]", f"{base}.size(0)"}
    size = buffers.size(body.stop)
    if not body.start and (body.stop in whole or size == (base, 0) or buffers.same_axes((base, 0), size)):
        return base
    if size is None and not body.stop.isdigit():
        raise DeclinedError("how many rows it visits is not the size of a tensor by the text")
    return f"{base}[{body.start}:{body.stop}]"


def _definition(source: SourceText, body: RowBody) -> list[str]:
    """The ``def`` of the body, if it is more than a call: its lines as they stand. Comments that have no other place
    come first."""
    first, last = body.loop.lineno, body.loop.end_lineno or body.loop.lineno
    indent = source.indent_of(first)
    header = body.loop.iter.end_lineno or first
    loose = _comments(source.lines[first - 1 : header if body.parameters else last])
    above = [f"{indent}{comment}" for comment in loose]
    if not body.parameters:
        return above
    return [*above, f"{indent}def {body.function}({', '.join(body.parameters)}):", *body.lines(source)]


def _comments(lines: Sequence[str]) -> list[str]:
    text = textwrap.dedent("".join(lines))
    found = []
    with contextlib.suppress(tokenize.TokenError, IndentationError):  # the end of a header alone
        for token in tokenize.generate_tokens(io.StringIO(text, newline=None).readline):
            if token.type == tokenize.COMMENT:
                found.append(token.string)
    return found


def _with_stack(
    source: SourceText, body: RowBody, stack: Stack, buffers: Buffers, torch: str
) -> tuple[list[str], list[str]]:
    call = stack.call
    if call.lineno != call.end_lineno:
        raise DeclinedError("the stack of the rows is written over several lines")
    first, last = stack.statement.lineno, stack.statement.end_lineno or stack.statement.lineno
    tail = [line.rstrip("\r\n") for line in source.lines[first - 1 : last]]
    row = call.lineno - first
    text = tail[row].encode()
    mapped = _mapped(body, buffers, torch, stack.axis).encode()
    tail[row] = (text[: call.col_offset] + mapped + text[call.end_col_offset or 0 :]).decode()
    return _definition(source, body), tail


def _with_store(source: SourceText, body: RowBody, buffers: Buffers, seen: Seen, torch: str) -> list[str]:
    out = seen.live_ins.get(body.stored)
    value = seen.of(body.result)
    if out is None or out.tensor is None or value is None or value.tensor is None:
        raise DeclinedError(f"what is stored into {body.stored} is no tensor")
    if len(value.tensor.shape) != len(out.tensor.shape) - 1:
        raise DeclinedError(f"what is stored into a row of {body.stored} is not of its number of axes")
    base = next(rows for _, rows in body.arguments if rows is not None)
    stop = body.stop if body.stop is not None else f"len({base})"
    size = buffers.size(stop) or ((base, 0) if body.stop is None else None)
    whole = not body.start and buffers.same_axes((body.stored, 0), size)
    place = f"{body.stored}[:]" if whole else f"{body.stored}[{body.start}:{stop}]"
    indent = source.indent_of(body.loop.lineno)
    return [*_definition(source, body), f"{indent}{place} = {_mapped(body, buffers, torch, 0)}"]


def _stack(region: Region, around: ast.AST, name: str, origins: Origins) -> Stack:
    """Raises: DeclinedError if more becomes of the list than one stack, right behind the loop."""
    more = f"more becomes of the list {name} than a stack right behind the loop"
    inside = set(map(id, ast.walk(region.node)))
    uses = [n for n in ast.walk(around) if isinstance(n, ast.Name) and n.id == name and id(n) not in inside]
    created = [
        one
        for one in region.before
        if isinstance(one, ast.Assign)
        and isinstance(one.value, ast.List)
        and not one.value.elts
        and len(one.targets) == 1
        if any(one.targets[0] is use for use in uses)
    ]
    if len(uses) != 2 or len(created) != 1 or not region.tail:
        raise DeclinedError(more)
    statement = region.tail[0]
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and node.args and any(node.args[0] is use for use in uses):
            axes = [*node.args[1:], *(one.value for one in node.keywords if one.arg == "dim")]
            plain = all(isinstance(one, ast.Constant) and isinstance(one.value, int) for one in axes)
            if origins.dotted(node.func) != "torch.stack" or len(axes) != len(node.args) + len(node.keywords) - 1:
                break
            if plain and len(axes) <= 1:
                return Stack(node, statement, axes[0].value if axes else 0, created[0])  # type: ignore[attr-defined]  # a constant
    raise DeclinedError(more)


def _proposal(
    source: SourceText, region: Region, body: RowBody, lines: list[str], stack: Stack | None, tail: list[str]
) -> Proposal:
    loop = region.node
    first, last = loop.lineno, loop.end_lineno or loop.lineno
    edits: list[tuple[int, int, list[str]]] = []
    above = 0
    if stack is not None:
        between = range(last + 1, stack.statement.lineno)
        kept = [source.lines[line - 1].rstrip("\r\n") for line in between]
        lines = [*lines, *(kept if lines or any(map(str.strip, kept)) else []), *tail]
        last = stack.statement.end_lineno or last
        made = stack.created
        alone = source.lines[made.lineno - 1].strip().replace(" ", "") == f"{body.filled}=[]"
        if alone:
            edits.append((made.lineno, made.lineno, []))
            above = 1
    edits.append((first, last, lines))
    function: cst.FunctionDef | None = None
    for one in source.functions():
        if source.first_line(one) <= first <= source.last_line(one):
            function = one
    what = f"the loop over rows becomes one call of torch.vmap, which runs {body.function} on all of them at once"
    found = source.proposal("vmap_body", function, source.replaced_lines(edits), what)
    return replace(found, replaced=(first, last), region=(first - above, first - above + len(lines) - 1))
