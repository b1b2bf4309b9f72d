"""A schedule becomes lines of source, step by step."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.context import Context, Temporary
from gradwright.doctor.rewrite.loops.ir import Loop, Nest, Statement
from gradwright.doctor.rewrite.loops.lowering import Lowering
from gradwright.doctor.rewrite.loops.phrasing import LONG_LINE, in_parts
from gradwright.doctor.rewrite.loops.spans import AgainError
from gradwright.doctor.rewrite.loops.targets import Made, find_made, infinity
from gradwright.doctor.rewrite.loops.value import Value
from gradwright.doctor.rewrite.source_text import DeclinedError

Lowered = Callable[[Lowering], Value]


@dataclass
class Writer:
    """What has been written so far. Lines are without the loop's own indentation; ``unit`` is one more level of it.

    ``rebound``: buffers that are now the result itself, ``dropped``: statements above the loop that nobody needs any
    more. ``comments``: the loop's own, by line; True where one stands behind code. ``lengths``: names for those that
    are the shorter of several. ``owned``: names of what lines have just made, which is read only once. ``remembered``:
    names of the body that have a line. ``held``: those that a kept loop hands from one round to the next. ``lists``:
    those of Python's numbers, with all their digits.
    """

    context: Context
    nest: Nest
    at: ast.stmt
    printer: nodes.Printer
    comments: dict[int, tuple[str, bool]] = field(default_factory=dict)
    unit: str = "    "
    lines: list[str] = field(default_factory=list)
    rebound: set[str] = field(default_factory=set)
    stored: set[str] = field(default_factory=set)
    dropped: dict[str, Made] = field(default_factory=dict)
    lists: dict[str, Value] = field(default_factory=dict)
    unsafe: list[str] = field(default_factory=list)
    lengths: dict[str, ast.expr] = field(default_factory=dict)
    owned: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    remembered: set[str] = field(default_factory=set)
    depth: int = 0
    _made: dict[str, Made | None] = field(default_factory=dict)
    _waiting: str = ""

    # --- lines -------------------------------------------------------------------------------------------------------

    def write(self, code: str) -> None:
        if self._waiting:
            code, self._waiting = f"{code}  {self._waiting}", ""
        self.lines.append(self.unit * self.depth + code)

    def assign(self, target: str, value: ast.expr, sign: str = "=") -> None:
        """One line; before it, one for each part of a long value."""
        value = self.parted(value, LONG_LINE - len(target))
        self.write(f"{target} {sign} {self.code(value)}")

    def parted(self, value: ast.expr, room: int) -> ast.expr:
        """The value over names for its parts, whose assignments are written, if it has no room on one line."""
        taken = self.printer.words | self.reads_so_far()
        parts, value = in_parts(value, room, self.code, taken)
        comment, self._waiting = self._waiting, ""
        for name, part in parts:
            self.write(f"{name} = {self.code(part)}")
        self._waiting = comment
        return value

    def write_lengths(self) -> None:
        """What the lines call a length comes before them."""
        used = self.reads_so_far()
        self.lines[:0] = [f"{name} = {self.code(node)}" for name, node in self.lengths.items() if name in used]

    def drop_unread(self) -> None:
        """Names of the body that were computed for all rounds, and that nobody reads that way."""
        for number in reversed(range(len(self.lines))):
            name, sign, _ = self.lines[number].partition(" = ")
            if not sign or name not in self.remembered - self.nest.live_outs:
                continue
            others = [*self.lines[:number], *self.lines[number + 1 :]]
            if not any(re.search(rf"\b{name}\b", line.split("  # ")[0]) for line in others):
                del self.lines[number]

    def code(self, node: ast.expr) -> str:
        return self.printer.code(node)

    def reads_so_far(self) -> set[str]:
        return {word for line in self.lines for word in re.findall(r"[^\W\d]\w*", line.split("  # ")[0])}

    def made(self, name: str) -> Made | None:
        """Where a buffer, number or list was made, if its making is the loop's own business, and still to be used."""
        if self.depth or name in self.stored or name in self.reads_so_far():
            return None
        if name not in self._made:
            self._made[name] = find_made(self.context.frame, self.at, name)
        return self._made[name]

    def comments_before(self, line: int, last: int) -> None:
        """The comments above a statement come above its line; the one behind it behind it."""
        for number in sorted(one for one in self.comments if one <= last):
            text, behind = self.comments.pop(number)
            if number == last and behind and line == last:
                self._waiting = text
            else:
                self.lines.append(self.unit * self.depth + text)

    def comments_left(self, last: int) -> None:
        if self._waiting:
            self.lines.append(self.unit * self.depth + self._waiting)
            self._waiting = ""
        for number in sorted(one for one in self.comments if one <= last):
            self.lines.append(self.unit * self.depth + self.comments.pop(number)[0])

    @contextmanager
    def inside(self, loop: Loop, low: int) -> Iterator[None]:
        """What is written here stands in a loop over ``variable``; what it sets belongs to one of its rounds."""
        context = self.context
        fixed, known, lists = context.fixed, dict(context.known), dict(context.lists)
        context.fixed = {**fixed, loop.variable: low}
        context.known = {name: _in_one_round(one, loop) for name, one in known.items()}
        entered = dict(context.known)
        before, self.depth = len(self.lines), self.depth + 1
        yield
        if len(self.lines) == before:
            raise DeclinedError("a loop of which nothing is left")
        set_inside = {name for name, one in context.known.items() if entered.get(name) is not one}
        set_inside |= entered.keys() - context.known.keys()
        known = {name: one for name, one in known.items() if name not in set_inside}  # the others' values are stale
        context.fixed, context.known, context.lists = fixed, known, lists
        self.depth -= 1

    # --- lowering ----------------------------------------------------------------------------------------------------

    def lowering(self, order: Sequence[Loop], *, optimistic: bool = False) -> Lowering:
        return Lowering(self.context, order, optimistic=optimistic)

    def lowered(self, order: Sequence[Loop], what: Lowered, covered: frozenset[Loop] = frozenset()) -> Value:
        """``what`` with axes read whole that were as long in the run, if something else beside them is surely so long.

        Two lengths that differ then raise. ``covered``: loops that what is written to covers surely.
        """
        value = what(self.lowering(order, optimistic=True))
        if value.unsure - value.sure - covered:
            value = what(self.lowering(order))
        if value.unsure - value.sure - covered:
            raise AgainError("lengths")
        return value

    def lowered_temporary(self, order: Sequence[Loop], what: Lowered) -> Value:
        """The same for a name of the body: whoever uses it has something beside it that is surely so long."""
        return what(self.lowering(order, optimistic="lengths" in self.context.assumptions))

    def conditions(self, low: Lowering, statement: Statement) -> list[tuple[Value, bool]]:
        """The guards of a statement, each with whether it has to hold."""
        found = []
        for guard in statement.guards:
            test, truth = guard, True
            while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
                test, truth = test.operand, not truth
            found.append((low.condition(test), truth))
        return found

    # --- temporaries -------------------------------------------------------------------------------------------------

    def remember(self, name: str, value: Value, source: ast.expr | None) -> None:
        """A temporary: written as a line of its own, unless it only renames something."""
        if name in self.held:
            self._hand_on(name, value)
            return
        if self._is_plain(value.node) and not nodes.names_in(value.node) & self.context.written:
            self.context.known[name] = Temporary(value, source)
            return
        if self._is_read_once_as_it_is(name) and not nodes.names_in(value.node) & self.context.written:
            self.context.known[name] = Temporary(value, source)
            return
        node = value.node
        if self._is_plain(node):
            node = nodes.method(node, "clone")
        self.assign(name, node)
        self.remembered.add(name)
        fresh = source if source is not None and not nodes.names_in(source) & (self.context.written | {name}) else None
        self.context.known[name] = Temporary(replace(value, node=nodes.name(name)), fresh)

    def _hand_on(self, name: str, value: Value) -> None:
        held = self.context.known[name].value
        if (value.axes, value.cell, value.dtype) != (held.axes, held.cell, held.dtype):
            raise DeclinedError(f"{name} is not of one shape in all rounds")
        self.assign(name, value.node)
        self.context.known[name] = Temporary(held)

    def _is_plain(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Name):
            return node.id not in self.context.temporaries
        if infinity(node) is not None:
            return True
        if isinstance(node, ast.UnaryOp):
            return isinstance(node.operand, ast.Constant)
        return isinstance(node, ast.Attribute | ast.Subscript | ast.Constant)

    def _is_read_once_as_it_is(self, name: str) -> bool:
        """``out[i] = total``: the only use of a temporary."""
        uses, alone = 0, False
        for statement in self.nest.statements:
            for expression in (statement.value, *statement.guards, *statement.target.indices):
                uses += sum(isinstance(n, ast.Name) and n.id == name for n in ast.walk(expression))
            alone = alone or (isinstance(statement.value, ast.Name) and statement.value.id == name)
        return uses == 1 and alone


def _in_one_round(temporary: Temporary, loop: Loop) -> Temporary:
    """A temporary that was computed for all rounds of a loop, in one of them, where the rounds count from 0."""
    value = temporary.value
    if loop not in value.axes or nodes.integer(loop.start) != 0 or loop.step != 1:
        return temporary
    at = value.axes.index(loop)
    base, parts = value.node, [*(nodes.whole() for _ in range(at)), nodes.name(loop.variable)]
    if not at and isinstance(base, ast.Subscript) and _from_the_start(base.slice):
        base = base.value  # x[:n][i] is x[i]
    node = nodes.subscript(base, parts)
    return Temporary(replace(value, node=node, axes=tuple(one for one in value.axes if one is not loop)))


def _from_the_start(part: ast.expr) -> bool:
    return isinstance(part, ast.Slice) and part.lower is None and part.step is None
