"""A loop of the user's, read into the loop IR. No statement is dropped: what is not understood declines the loop.

Three passes: the syntax tree becomes a tree of loops, branches and actions (here, with ``headers``, ``actions``,
``lifting`` and ``straight``); counters become arithmetic and reused names become different ones (``naming``); the tree
is laid flat (``flat``).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Sequence

from gradwright.doctor.rewrite.loops.actions import augmented, called, check_pure
from gradwright.doctor.rewrite.loops.assigning import Assigning
from gradwright.doctor.rewrite.loops.branches import simplest
from gradwright.doctor.rewrite.loops.counting import counting
from gradwright.doctor.rewrite.loops.definitions import Bound, Definitions
from gradwright.doctor.rewrite.loops.expressions import (
    added,
    at,
    call,
    completed,
    fresh,
    literal,
    name,
    names_of,
    number,
    replaced,
    times,
)
from gradwright.doctor.rewrite.loops.flat import laid_flat
from gradwright.doctor.rewrite.loops.headers import header
from gradwright.doctor.rewrite.loops.ir import Loop, Nest, Place
from gradwright.doctor.rewrite.loops.lifting import Lifting
from gradwright.doctor.rewrite.loops.naming import named
from gradwright.doctor.rewrite.loops.straight import obstacle, straight, value_above
from gradwright.doctor.rewrite.loops.tree import Action, Branch, Do, Item, actions, loops_in, root
from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.doctor.source.seen import Seen


def read_nest(
    node: ast.stmt,
    seen: Seen,
    *,
    live_outs: Collection[str] = (),
    tail: Sequence[ast.stmt] = (),
    before: Sequence[ast.stmt] = (),
) -> Nest:
    """The loop IR of a loop, or of a statement that holds comprehensions.

    ``live_outs``: names read after the region; ``tail``: the statements of the region after the loop; ``before``: the
    statements above it in its block, in order (where a counter starts is read there).
    Raises: DeclinedError, with one sentence for the user.

    >>> loop = ast.parse("for i in range(n):\\n    t = x[i]\\n    y[i] = t * t").body[0]
    >>> nest = read_nest(loop, Seen())
    >>> [(s.kind, s.target.base, ast.unparse(s.value)) for s in nest.statements], sorted(nest.temporaries)
    ([('assign', 't', 'x[i]'), ('assign', 'y', 't * t')], ['t'])
    """
    seen = completed(seen, node)
    reader = Reader(node, seen, live_outs, tail, before)
    if isinstance(node, (ast.For, ast.While)):
        items = reader.block([node], [*before])
    else:
        items, statement = reader.around(node)
        tail = (statement, *tail)
    if not any(isinstance(item, Do) for item in items):
        raise DeclinedError("there is no loop here")
    wanted = frozenset(live_outs) | {inner for statement in tail for inner in names_of(statement)}
    starts = {one: value for one in reader.definitions.stored if (value := value_above(one, before)) is not None}
    starts = {one: value for one, value in starts.items() if literal(value) is not None}
    items, temporaries = named(items, wanted, reader.taken, seen, starts)
    statements = laid_flat(items)
    if not statements:
        raise DeclinedError("the loop computes nothing that is read later")
    return Nest(node, statements, temporaries, frozenset(live_outs), tuple(tail))


class Reader:
    """``names``: what names stand for now (rows, integers computed from loop variables), instead of themselves."""

    def __init__(
        self,
        node: ast.stmt,
        seen: Seen,
        live_outs: Collection[str],
        tail: Sequence[ast.stmt],
        before: Sequence[ast.stmt],
    ) -> None:
        self.seen, self.before = seen, before
        region = [node, *tail]
        self.taken = {
            inner.id for part in [*region, *before] for inner in ast.walk(part) if isinstance(inner, ast.Name)
        }
        self.taken |= set(seen.live_ins) | set(live_outs)
        self.names: dict[str, ast.expr] = {}
        self.loops: list[Loop] = []
        self.branches = 0
        self.definitions = Definitions(node, seen, frozenset(live_outs) | {n for part in tail for n in names_of(part)})
        self.lifting, self.assigning = Lifting(self), Assigning(self)

    def around(self, node: ast.stmt) -> tuple[list[Item], ast.stmt]:
        """What the comprehensions of a statement compute, and the statement over their results."""
        items: list[Item] = []
        if not isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Expr)) or node.value is None:
            raise DeclinedError("there is no loop here")
        value = self.lifting.lifted(node.value, items, node)
        fields = {field: given for field, given in ast.iter_fields(node) if field != "value"}
        return items, ast.copy_location(type(node)(value=value, **fields), node)

    # --- statements ---------------------------------------------------------------------------------------------------

    def block(self, statements: Sequence[ast.stmt], above: Sequence[ast.stmt] = ()) -> list[Item]:
        items: list[Item] = []
        plain = straight(statements)
        for position, statement in enumerate(plain):
            items += self.statement(statement, [*above, *plain[:position]])
        return items

    def statement(self, node: ast.stmt, above: Sequence[ast.stmt]) -> list[Item]:
        items: list[Item] = []
        match node:
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                return []
            case ast.For():
                self.for_loop(node, items)
            case ast.While():
                self.while_loop(node, items, above)
            case ast.If():
                self.branch(node, items)
            case ast.Assign(targets=[ast.Tuple() | ast.List() as target]):
                self.assigning.unpacked(target, node, items)
            case ast.Assign(targets=[target]):
                self.assigning.assign(target, self.value(node.value, items, node), node, items)
            case ast.Assign(targets=targets):
                self.assigning.chained(targets, node, items)
            case ast.AnnAssign(value=None):
                return []
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self.assigning.assign(target, self.value(value, items, node), node, items)
            case ast.AugAssign():
                value = self.value(node.value, items, node)
                items += augmented(self.target(node.target, items), node.op, value, node, self.seen)
            case ast.Expr(value=ast.Call()):
                value = self.value(node.value, items, node)
                assert isinstance(value, ast.Call)
                items += called(value, node, self.seen)
                check_pure(value.args)
                return items
            case _:
                raise DeclinedError(obstacle(node))
        for action in (item for item in items if isinstance(item, Action)):
            check_pure(action.expressions)
        return items

    def value(self, node: ast.expr, items: list[Item], statement: ast.stmt) -> ast.expr:
        """An expression over what its names stand for; its comprehensions go before it."""
        return replaced(self.lifting.lifted(node, items, statement), self.names, self.seen)

    def target(self, node: ast.expr, items: list[Item]) -> ast.expr:
        return replaced(node, self.names, self.seen)

    # --- branches -----------------------------------------------------------------------------------------------------

    def branch(self, node: ast.If, items: list[Item]) -> None:
        test = self.value(node.test, items, node)
        check_pure([test])
        self.branches += 1
        outside = dict(self.names)
        then = self.block(node.body)
        other = self.block(node.orelse)
        self.names = outside
        self.branches -= 1
        items += self.decided(test, then, other, node)

    def decided(self, test: ast.expr, then: list[Item], other: list[Item], node: ast.stmt) -> list[Item]:
        """A branch in its simplest form: an extremum, one action over both arms, or actions under guards."""
        if not then and not other:
            return []
        single = simplest(test, then, other, node)
        if single is not None:
            return [single]
        items: list[Item] = []
        if self.changes([*then, *other], names_of(test)):
            test = self.assigning.held("mask", test, node, items)
        return [*items, Branch(test, then, other, node)]

    def changes(self, items: Sequence[Item], read: set[str]) -> bool:
        """Whether the test of a branch would be another one after an action of the branch, before its last."""
        inside = list(actions(items))
        repeated = bool(list(loops_in(items)))
        written = {root(place.base) for action in (inside if repeated else inside[:-1]) for place in action.places}
        return self.definitions.overlap(read, written)

    # --- loops --------------------------------------------------------------------------------------------------------

    def for_loop(self, node: ast.For, items: list[Item]) -> None:
        if node.orelse:
            raise DeclinedError("a loop with else")
        source = self.value(node.iter, items, node)
        items.append(
            self.loop(node.target, source, node, lambda: self.block(node.body), self.definitions.bound_in(node))
        )

    def loop(
        self, target: ast.expr, source: ast.expr, node: ast.stmt, body: Callable[[], list[Item]], bound: Bound
    ) -> Do:
        """One ``for``, of a statement or a comprehension. ``bound``: what its body binds."""
        check_pure([source])
        copied = any(isinstance(part, ast.Attribute) and part.attr == "tolist" for part in ast.walk(source))
        if copied and self.definitions.overlap(names_of(source), self.definitions.written):
            raise DeclinedError(f"what the loop runs over a copy of is written while it runs: {ast.unparse(source)}")
        found = header(target, source, node, self.seen, self.taken)
        outside, depth, branches = dict(self.names), len(self.loops), self.branches
        self.branches = 0
        first: list[Item] = []
        loops: list[Loop] = []
        for loop in found.loops:
            hidden = {one.variable for one in [*self.loops, *loops]} | bound.names | self.definitions.wanted
            if loop.variable in hidden or loop.variable in self.names:
                new = Loop(fresh(loop.variable, self.taken), loop.start, loop.stop, loop.step, loop.node)
                if loop.variable in bound.names | self.definitions.wanted:
                    shown = name(loop.variable)
                    first.append(Action("assign", Place(loop.variable, (), shown), name(new.variable), node))
                else:
                    self.names[loop.variable] = name(new.variable)
                loop = new
            loops.append(loop)
        self.loops += loops
        for one, value in found.bindings:
            assert isinstance(one, ast.Name)
            if names_of(value) & bound.names - {loop.variable for loop in loops}:
                raise DeclinedError(f"what the loop runs over changes while it runs: {ast.unparse(source)}")
            if self.definitions.row_stands_for(one, value, bound):
                self.names[one.id] = at(value, one)
            else:
                self.names.pop(one.id, None)
                first.append(Action("assign", Place(one.id, (), one), at(value, one), node))
        inside = [*first, *body()]
        del self.loops[depth:]
        self.names, self.branches = outside, branches
        for loop in reversed(loops):
            inside = [Do(loop, inside)]
        (done,) = inside
        assert isinstance(done, Do)
        return done

    def while_loop(self, node: ast.While, items: list[Item], above: Sequence[ast.stmt]) -> None:
        if node.orelse:
            raise DeclinedError("a loop with else")
        variable, stop, step = counting(node, self.seen)
        stop = self.value(stop, items, node)
        start = value_above(variable, above)
        start = self.value(start, items, node) if start is not None else name(variable)
        loop = Loop(fresh(f"{variable}_", self.taken), start, stop, step, node)
        outside, branches = dict(self.names), self.branches
        self.names[variable], self.branches = name(loop.variable), 0
        self.loops.append(loop)
        body = self.block(node.body[:-1])
        self.loops.pop()
        self.names, self.branches = outside, branches
        rounds = call("len", call("range", start, stop, *([number(step)] if step != 1 else [])))
        last = call("max", start, stop) if step == 1 else added(start, times(step, rounds))
        shown = name(variable)
        items += [Do(loop, body), Action("assign", Place(variable, (), shown), last, node)]
