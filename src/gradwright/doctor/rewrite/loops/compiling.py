"""From a loop in a file to Proposals: read it, schedule it, write it down, and put that in the loop's place."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import io
import re
import tokenize
from collections.abc import Callable, Iterator, Sequence

import libcst as cst

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.context import Context
from gradwright.doctor.rewrite.loops.frames import Frame
from gradwright.doctor.rewrite.loops.ir import Loop, Nest, Schedule, Step, Vector
from gradwright.doctor.rewrite.loops.later import check_around, written_later
from gradwright.doctor.rewrite.loops.reading import read_nest
from gradwright.doctor.rewrite.loops.region import Region, region_of
from gradwright.doctor.rewrite.loops.schedule import schedule
from gradwright.doctor.rewrite.loops.shortest import named_lengths
from gradwright.doctor.rewrite.loops.sizes import Sizes
from gradwright.doctor.rewrite.loops.spans import AgainError
from gradwright.doctor.rewrite.loops.tails import write_tail
from gradwright.doctor.rewrite.loops.terms import size_of, whole_size_of
from gradwright.doctor.rewrite.loops.writers import write_steps
from gradwright.doctor.rewrite.loops.writing import Writer
from gradwright.doctor.rewrite.source_text import BOM, DeclinedError, SourceText
from gradwright.doctor.session.proposal import Proposal
from gradwright.doctor.source.loops import LoopSite
from gradwright.doctor.source.seen import Seen
from gradwright.doctor.source.statements import last_import_line

IMPORT = "import torch"
Edit = tuple[int, int, Sequence[str]]


def compile_loop(source: SourceText, site: LoopSite, seen: Seen) -> tuple[Proposal, ...]:
    """The loop at ``site`` as array code, best first.

    Cost: one parse of the file, some milliseconds a loop. Raises: DeclinedError, with the one sentence for the user.
    """
    region = region_of(source.text, site)
    nest = read_nest(region.node, seen, live_outs=site.read_after, tail=region.tail, before=region.before)
    tree = ast.parse(source.text.removeprefix(BOM))
    check_around(tree, region.node)
    plan = schedule(nest, seen, function=region.function, before=region.before, module=tree)
    frame = Frame(tree, region.node)
    at = frame.find(region.node)
    _check_builtins(frame, region)
    found: list[Proposal] = []
    ways = [(False, False), (True, False)]
    for careful, second in ways:
        writer, added = _written(lambda: _writer(source, frame, at, nest, site, region, seen), plan, careful, second)
        if writer.context.forms and not second:
            ways.append((careful, True))
        writer.comments_left(_last(region))
        _check_bound(writer, region)
        proposal = _proposal(source, writer, region, plan, added)
        if all(proposal.new_text != other.new_text for other in found):
            found.append(proposal)
    return tuple(found)


def _written(
    fresh: Callable[[], tuple[Writer, str]], plan: Schedule, careful: bool, second: bool
) -> tuple[Writer, str]:
    """What is written with all assumptions that hold. ``careful``: branches not taken are kept finite at infinity.
    ``second``: in the second form, where there are two."""
    assumptions = frozenset({"squares", "lengths"})
    while True:
        writer, added = fresh()
        writer.context.assumptions, writer.context.careful, writer.context.second = assumptions, careful, second
        try:
            write_steps(writer, plan.steps)
            write_tail(writer)
            writer.drop_unread()
            writer.write_lengths()
        except AgainError as error:
            assumptions -= {error.assumption}
            continue
        return writer, added


def _check_builtins(frame: Frame, region: Region) -> None:
    """A ``range`` or ``max`` of the user's own is none of Python's."""
    for node in ast.walk(region.node):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Name) and hasattr(builtins, called.id) and not frame.module_of(called):
            raise DeclinedError(f"{called.id} means something else in this file")


def _check_bound(writer: Writer, region: Region) -> None:
    """What the loop bound and somebody reads after it is still bound."""
    bound = {n.id for n in ast.walk(region.node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    now = ast.parse("\n".join(["def f():", *(" " + line for line in writer.lines), " pass"]))
    still = {n.id for n in ast.walk(now) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    for name in sorted((writer.nest.live_outs & bound) - still):
        raise DeclinedError(f"{name} is read after the loop, with the value of its last iteration")


def _writer(
    source: SourceText, frame: Frame, at: ast.stmt, nest: Nest, site: LoopSite, region: Region, seen: Seen
) -> tuple[Writer, str]:
    torch = frame.torch_name()
    added = "" if torch else IMPORT
    if not torch and any(name == "torch" for name in (*frame.imports, *frame.bindings)):
        raise DeclinedError("the name torch means something else in this file")
    written = frozenset(s.target.base.split(".")[0] for s in nest.statements if s.target.indices)
    context = Context(
        frame=frame,
        sizes=Sizes(frame, at, seen),
        seen=seen,
        torch=nodes.name(torch or "torch"),
        loops={loop.variable: loop for statement in nest.statements for loop in statement.loops},
        temporaries=nest.temporaries,
        tracked=not site.in_function_class,
        written=written,
        overwritten=written | written_later(frame.function or frame.tree, nest),
    )
    for loop in context.loops.values():
        for bound in (loop.stop, loop.start):
            context.sizes.term(bound)  # sizes are called what the loops call them
    unit = source.module.default_indent
    text = source.text.removeprefix(BOM)
    printer = nodes.Printer(text)
    lengths = named_lengths(context.sizes, printer.words)
    printer.words |= set(lengths)
    writer = Writer(context, nest, at, printer, _comments(text, region), unit, lengths=lengths)
    return writer, added


def _comments(text: str, region: Region) -> dict[int, tuple[str, bool]]:
    """The comments of the region by their line, and whether code stands before them."""
    found = {}
    first, last = region.node.lineno, _last(region)
    for token in tokenize.generate_tokens(io.StringIO(text, newline=None).readline):
        if token.type == tokenize.COMMENT and first <= token.start[0] <= last:
            found[token.start[0]] = (token.string, bool(token.line[: token.start[1]].strip()))
    return found


def _last(region: Region) -> int:
    return (region.tail[-1] if region.tail else region.node).end_lineno or 0


def _proposal(source: SourceText, writer: Writer, region: Region, plan: Schedule, added: str) -> Proposal:
    first, last = region.node.lineno, _last(region)
    if source.lines[first - 1].removeprefix(BOM)[: region.node.col_offset].strip():
        raise DeclinedError("the loop shares its line with something else")
    indent = source.indent_of(first)
    edits: list[Edit] = [(first, last, [indent + line for line in writer.lines])]
    above = [(made.statement.lineno, made.statement.end_lineno or 0) for made in writer.dropped.values()]
    above += [lines for lines in _sizes_now_unused(source, writer, first, last) if lines not in above]
    edits += [(start, end, ()) for start, end in sorted(set(above))]
    if added:
        at = last_import_line(writer.context.frame.tree)
        if not at:
            raise DeclinedError("the file has no place for an import of torch")
        edits.append((at, at, [source.lines[at - 1].rstrip("\r\n"), added]))
    new_text = source.replaced_lines(edits)
    function = function_at(source, first)
    what = _what(plan)
    proposal = source.proposal("compile_loop", function, new_text, what)
    shift = (1 if added else 0) - sum(end - start + 1 for start, end in set(above))
    placed = (first + shift, first + shift + len(writer.lines) - 1)
    return dataclasses.replace(
        proposal,
        replaced=(first, last),
        region=placed,
        added=added,
        certificate=plan.certificate,
        unsafe="; ".join(writer.unsafe),
    )


def function_at(source: SourceText, line: int) -> cst.FunctionDef | None:
    around = [f for f in source.functions() if source.first_line(f) <= line <= source.last_line(f)]
    return around[-1] if around else None


def _what(plan: Schedule) -> str:
    loops = list(dict.fromkeys(loop.variable for step in _vectors(plan.steps) for loop in step))
    if not loops:
        raise DeclinedError(plan.carried or "no loop of it can be taken at once")
    what = f"the loop over {' and '.join(loops)} becomes array code"
    return f"{what}; {plan.carried}" if plan.carried else what


def _vectors(steps: Sequence[Step]) -> Iterator[tuple[Loop, ...]]:
    """The loops that each vectorised statement is taken over at once."""
    for step in steps:
        if isinstance(step, Vector):
            yield step.axes
        else:
            yield from _vectors(step.body)


def _sizes_now_unused(source: SourceText, writer: Writer, first: int, last: int) -> list[tuple[int, int]]:
    """``n, m = x.shape``, where only the loop used n and m, goes with the loop; ``k = 0`` where k only counted."""
    frame = writer.context.frame
    if frame.function is None:
        return []
    written = set(re.findall(r"[^\W\d]\w*", " ".join(writer.lines)))
    shared = [node for node in ast.walk(frame.function) if isinstance(node, ast.Global | ast.Nonlocal)]
    declared = {name for node in shared for name in node.names}
    lines = []
    for statement in ast.walk(frame.function):
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or statement.lineno >= first:
            continue
        target = statement.targets[0]
        parts = target.elts if isinstance(target, ast.Tuple) else [target]
        names = {part.id for part in parts if isinstance(part, ast.Name)}
        values = statement.value.elts if isinstance(statement.value, ast.Tuple) else [statement.value]
        bound = [one.statement for name in names for one in frame.bindings[name]]
        above = [one for one in bound if one is None or not first <= one.lineno <= last]
        if len(names) != len(parts) or names & written or len(above) != len(names):
            continue
        counter = len(bound) > len(above) and nodes.integer(statement.value) is not None and not names & declared
        if not counter and not all(whole_size_of(value) or size_of(value)[0] for value in values):
            continue
        reads = [use.lineno for name in names for use in frame.reads.get(name, [])]
        inside = [line for line in reads if first <= line <= last]
        alone = statement.lineno == statement.end_lineno and "#" not in source.lines[statement.lineno - 1]
        if alone and inside and len(inside) == len(reads) and len(frame.block_of(statement)) > 1:
            lines.append((statement.lineno, statement.lineno))
    return lines
