"""The loops inside a loop that stays: each becomes array code by itself, and the loop around them goes on as it was.

For an outer loop that could not even be read (it binds its state anew in every round, fills two lists, calls
something): what it does with the elements of one round is a nest like any other.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from gradwright.doctor.rewrite.loops.compiling import compile_loop, function_at
from gradwright.doctor.rewrite.loops.region import region_of
from gradwright.doctor.rewrite.source_text import BOM, DeclinedError, SourceText, split_lines
from gradwright.doctor.session.proposal import Proposal
from gradwright.doctor.source.liveness import read_after
from gradwright.doctor.source.loops import LoopSite
from gradwright.doctor.source.names import events
from gradwright.doctor.source.seen import Seen, SeenValue
from gradwright.doctor.source.statements import DEFINITIONS, blocks

_LOOPS = (ast.For, ast.While)


def compile_inner(source: SourceText, site: LoopSite, seen: Seen) -> tuple[Proposal, ...]:
    """One candidate, in which as many of the inner loops as can be are array code.

    Raises: DeclinedError if none can, with the reason of the first.
    """
    region = region_of(source.text, site)
    if not isinstance(region.node, _LOOPS):
        raise DeclinedError("it has no loop inside")
    end = (region.tail[-1] if region.tail else region.node).end_lineno or 0
    inside = _Inside(source, site, _as_in_one_round(seen, region.node), region.node.lineno, end)
    inside.write(region.node)
    if not inside.written:
        raise DeclinedError(inside.reasons[-1] if inside.reasons else "it has no loop inside")
    what = "; ".join(dict.fromkeys(one.what for one in reversed(inside.written)))
    certificates = {one.certificate for one in inside.written}
    function = function_at(source, region.node.lineno)
    return (
        replace(
            source.proposal("compile_loop", function, inside.source.text, what),
            replaced=(region.node.lineno, end),
            region=(region.node.lineno, inside.last),
            certificate=certificates.pop() if len(certificates) == 1 else "",
            unsafe="; ".join(dict.fromkeys(one.unsafe for one in inside.written if one.unsafe)),
        ),
    )


@dataclass
class _Inside:
    """The lines from ``first`` to ``last`` while their inner loops are written, from the last to the first: so the
    places of those before it stay as they were seen."""

    source: SourceText
    site: LoopSite
    seen: Seen
    first: int
    last: int
    written: list[Proposal] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def write(self, around: ast.stmt) -> None:
        for loop in reversed([*_inner_loops(around)]):
            try:
                best = compile_loop(self.source, self._site_of(loop), self.seen)[0]
                self._check(best)
            except DeclinedError as error:
                self.write(loop)
                self.reasons.append(str(error))
                continue
            self.last += _line_count(best.new_text) - _line_count(self.source.text)
            self.source = SourceText(self.source.path, best.new_text)
            self.written.append(best)

    def _check(self, best: Proposal) -> None:
        """Raises: DeclinedError where a line above or below changes."""
        old, new = split_lines(self.source.text), split_lines(best.new_text)
        below = len(old) - self.last
        if old[: self.first - 1] != new[: self.first - 1] or (below and old[self.last :] != new[-below:]):
            raise DeclinedError("it would change what stands around the loop")

    def _site_of(self, loop: ast.stmt) -> LoopSite:
        text = self.source.text.removeprefix(BOM)
        last = loop.end_lineno or loop.lineno
        column = len(split_lines(text)[loop.lineno - 1].encode()[: loop.col_offset].decode()) + 1
        bound = {event.name for event in events([loop], into_functions=False) if event.kind == "bind"}
        alive = tuple(sorted(bound & read_after(ast.parse(text), loop.lineno, last)))
        return replace(
            self.site, line=loop.lineno, column=column, end_line=last, tail=0, live_outs=alive, read_after=alive
        )


def _inner_loops(around: ast.stmt) -> Iterator[ast.stmt]:
    """The outermost loops inside it, in the order of the text."""
    for block in blocks(around):
        for statement in block:
            if isinstance(statement, _LOOPS):
                yield statement
            elif not isinstance(statement, DEFINITIONS):
                yield from _inner_loops(statement)


def _as_in_one_round(seen: Seen, around: ast.stmt) -> Seen:
    """Without what tells one round of the loop around from the next: which memory its tensors had."""
    bound = {event.name for event in events([around], into_functions=False) if event.kind == "bind"}
    values = {key: tuple(dict.fromkeys(_in_the_first_memory(found))) for key, found in seen.values.items()}
    mine = replace(seen, values=values)
    live_ins = {name: value for name, value in seen.live_ins.items() if name not in bound}
    for node in ast.walk(around):
        read = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in bound
        if read and (value := mine.of(node)) is not None:
            live_ins.setdefault(node.id, value)  # type: ignore[attr-defined]  # a name's
    return replace(mine, live_ins=live_ins)


def _in_the_first_memory(found: Sequence[SeenValue]) -> Iterator[SeenValue]:
    tensors = [one.tensor for one in found if one.tensor is not None]
    tracked = any(one.requires_grad for one in tensors)
    for one in found:
        if one.tensor is None:
            yield one
            continue
        memory, leaf = tensors[0].memory, one.tensor.is_leaf and not tracked
        yield replace(one, tensor=replace(one.tensor, memory=memory, requires_grad=tracked, is_leaf=leaf))


def _line_count(text: str) -> int:
    return len(split_lines(text))
