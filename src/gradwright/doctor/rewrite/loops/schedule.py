"""Which statements are taken at once, in which order, and which loops must stay.

Allen and Kennedy's algorithm: the strongly connected components of the dependence graph, in topological order; a
component without a cycle is taken at once over all its loops; in one with a cycle, a loop that carries none of its
edges moves inwards and is taken at once, one that does stays, and what it leaves of the component is scheduled inside.
Before a loop stays, sums and extrema that are read on the way are tried as running ones (``recurrences``).

Source: Allen and Kennedy, Automatic translation of Fortran programs to vector form, ACM TOPLAS 9(4), 1987.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
from collections.abc import Sequence

from gradwright.doctor.rewrite.loops.aliases import check_aliases
from gradwright.doctor.rewrite.loops.certificate import certificate
from gradwright.doctor.rewrite.loops.components import components
from gradwright.doctor.rewrite.loops.dependence import Dependences, Edge, common, why
from gradwright.doctor.rewrite.loops.expressions import completed, made, names_of
from gradwright.doctor.rewrite.loops.ir import Loop, Nest, Role, Schedule, Sequential, Statement, Step, Vector
from gradwright.doctor.rewrite.loops.recurrences import recurrence, without_running
from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.doctor.source.seen import Seen

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


def schedule(
    nest: Nest,
    seen: Seen,
    *,
    function: FunctionNode | None = None,
    before: Sequence[ast.stmt] = (),
    module: ast.Module | None = None,
) -> Schedule:
    """The nest's statements in an order in which as much as possible is taken at once.

    ``function`` and ``before``, where given, are read for the certificate: which arrays are made there, and so share
    memory with nothing; ``function`` or ``module`` for what is written into later. Raises: DeclinedError with the
    dependence, if nothing can be taken at once.

    >>> from gradwright.doctor.rewrite.loops.reading import read_nest
    >>> from gradwright.doctor.source.seen import SeenValue
    >>> seen = Seen({}, {"total": SeenValue("float"), "x": SeenValue("list"), "n": SeenValue("int")})
    >>> loop = ast.parse("for i in range(n):\\n    total += x[i] * x[i]").body[0]
    >>> (step,) = schedule(read_nest(loop, seen), seen).steps
    >>> step.role, [loop.variable for loop in step.reduced]
    ('reduce', ['i'])
    """
    dependences = Dependences(nest, completed(seen, nest.node))
    check_aliases(nest, dependences, function or module)
    steps = tuple(_Scheduler(dependences).all())
    for step in steps:
        if isinstance(step, Sequential) and not _at_once(step):
            raise DeclinedError(step.why)  # what is left would walk over every element as before
    if not any(_at_once(step) for step in steps):
        raise DeclinedError("there is nothing to take at once")
    return Schedule(steps, certificate(nest, dependences, function, before))


def _at_once(step: Step) -> bool:
    if isinstance(step, Vector):
        return bool(step.axes)
    return any(_at_once(inner) for inner in step.body)


@dataclasses.dataclass(frozen=True)
class _State:
    """By statement: ``left``, the loops not yet dealt with; ``axes``, those taken at once; ``running`` along which."""

    left: dict[Statement, tuple[Loop, ...]]
    axes: dict[Statement, tuple[Loop, ...]]
    running: dict[Statement, Loop]
    edges: tuple[Edge, ...]


class _Scheduler:
    def __init__(self, dependences: Dependences) -> None:
        self.dependences = dependences

    def all(self) -> list[Step]:
        statements = self.dependences.nest.statements
        state = _State(
            {one: one.loops for one in statements}, dict.fromkeys(statements, ()), {}, tuple(self.dependences.edges)
        )
        return self.steps(statements, state)

    def steps(self, statements: Sequence[Statement], state: _State) -> list[Step]:
        found: list[Step] = []
        for component in components(statements, state.edges):
            around = self._stays_with(component, found[-1], state) if found else None
            kept = [self.kept(component, around.loop, state, around.why)] if around is not None else None
            for step in kept or self.component(component, state):
                last = found[-1] if found else None
                if isinstance(last, Sequential) and isinstance(step, Sequential) and last.loop is step.loop:
                    # Two neighbours that keep the same loop share it again, as in the text.
                    found[-1] = Sequential(last.loop, (*last.body, *step.body), last.why)
                else:
                    found.append(step)
        return found

    def _stays_with(self, statements: tuple[Statement, ...], before: Step, state: _State) -> Sequential | None:
        """The loop that stays in which statements stay that read a name of one of its rounds."""
        if not isinstance(before, Sequential):
            return None
        nest, effects = self.dependences.nest, self.dependences.effects
        inside = _statements_of(before)
        names = {one.base for each in inside for one in effects[each].updates if one.base in nest.temporaries}
        read = {one.base for each in statements for one in effects[each].reads}
        left = [state.left[one] for one in statements]
        shared = all(loops and loops[0] is before.loop for loops in left)
        return before if names & read and shared else None

    def component(self, statements: tuple[Statement, ...], state: _State) -> list[Step]:
        inside = tuple(edge for edge in state.edges if edge.source in statements and edge.sink in statements)
        # NOTE [reads first]: a statement taken at once reads everything before it writes; a list is filled in order.
        plain = all(edge.kind in ("order", "anti") for edge in inside)
        if len(statements) == 1 and (not inside or (plain and not _reordered(statements[0], state))):
            return [self.vector(statements[0], state)]
        shared = common([state.left[one] for one in statements])
        if not shared:
            raise DeclinedError(why(inside[0]))
        loop, deeper = shared[0], shared[1:]
        carried = [edge for edge in inside if edge.carrier is loop]
        if not carried:
            needed = [inner for inner in deeper if any(edge.carrier is inner for edge in inside)]
            if not any(loop.variable in names_of(inner.start) | names_of(inner.stop) for inner in needed):
                return self.component(statements, self._moved(statements, loop, state))
            range_ = f"the range of {needed[0].variable} depends on {loop.variable}"
            reason = f"{range_}, and {why(_first(inside))}"
            return [self.kept(statements, loop, state, reason)]
        running = without_running(statements, inside, loop, state.left, state.axes, self.dependences)
        if running is not None:
            accumulation, edges = running
            changed = _State(state.left, state.axes, {**state.running, accumulation: loop}, edges)
            return self.steps(statements, changed)
        if len(statements) == 1:
            rewritten = recurrence(statements[0], inside, loop, state.left[statements[0]], self.dependences)
            if rewritten is not None:
                axes = _in_order(statements[0], (*state.axes[statements[0]], *state.left[statements[0]]))
                return [Vector(rewritten, axes, "running", (loop,))]
        return [self.kept(statements, loop, state, why(_first(carried)))]

    def _moved(self, statements: Sequence[Statement], loop: Loop, state: _State) -> _State:
        """``loop`` is taken at once, inside whatever stays."""
        left = {**state.left, **{one: _less(state.left[one], loop) for one in statements}}
        axes = {**state.axes, **{one: (*state.axes[one], loop) for one in statements}}
        return _State(left, axes, state.running, state.edges)

    def kept(self, statements: Sequence[Statement], loop: Loop, state: _State, reason: str) -> Sequential:
        left = {**state.left, **{one: _less(state.left[one], loop) for one in statements}}
        edges = tuple(
            edge
            for edge in state.edges
            if edge.source in statements and edge.sink in statements and edge.carrier is not loop
        )
        return Sequential(loop, tuple(self.steps(statements, _State(left, state.axes, state.running, edges))), reason)

    def vector(self, statement: Statement, state: _State) -> Vector:
        axes = _in_order(statement, (*state.axes[statement], *state.left[statement]))
        if statement in state.running:
            return Vector(statement, axes, "running", (state.running[statement],))
        if statement.kind == "append":
            return Vector(statement, axes, "append")
        meeting = {loop for loop in axes if self.dependences.collide(statement, axes, loop)}
        absent = tuple(loop for loop in axes if loop in meeting and self._absent(statement, loop))
        if statement.kind == "extremum":
            if meeting != set(absent):
                raise DeclinedError(f"{ast.unparse(statement.target.node)} may be the same place in several iterations")
            if not absent and not statement.also:
                return Vector(_as_assignment(statement), axes, "map")
            return Vector(statement, axes, "extremum", absent)
        role: Role = "map" if not meeting else "reduce"
        if any(loop not in absent for loop in meeting):
            role = "scatter"
        elif meeting and statement.kind == "assign":
            role = "scatter"  # the same value, written more than once
        return Vector(statement, axes, role, absent if role == "reduce" else ())

    def _absent(self, statement: Statement, loop: Loop) -> bool:
        """Whether neither the loop's variable indexes the target, nor a name that the loop sets."""
        target = self.dependences.effects[statement].updates[0]
        own = self.dependences.private(target.base)
        moving = {loop.variable} | {
            other.target.base
            for other in self.dependences.nest.statements
            if loop in other.loops and not other.target.indices
        }
        return loop not in own and not any(moving & names_of(index) for index in target.indices)


def _statements_of(step: Step) -> list[Statement]:
    if isinstance(step, Vector):
        return [step.statement]
    return [statement for inner in step.body for statement in _statements_of(inner)]


def _as_assignment(statement: Statement) -> Statement:
    """``if v > m[i]: m[i] = v``, where every round has its own ``m[i]``, as an assignment under a guard."""
    test = ast.parse(f"_ {statement.operator} _", mode="eval").body
    assert isinstance(test, ast.Compare)
    old = copy.copy(statement.target.node)
    old.ctx = ast.Load()  # type: ignore[attr-defined]  # a name, an attribute or an element
    guard = made(ast.Compare(statement.value, test.ops, [old]))
    return dataclasses.replace(statement, kind="assign", operator="", guards=(*statement.guards, guard))


def _less(loops: tuple[Loop, ...], gone: Loop) -> tuple[Loop, ...]:
    return tuple(loop for loop in loops if loop is not gone)


def _reordered(statement: Statement, state: _State) -> bool:
    """Whether a loop that is taken at once lies inside one that stays, though it was around it."""
    order = [statement.loops.index(loop) for loop in (*state.axes[statement], *state.left[statement])]
    kept = [place for place in range(len(statement.loops)) if place not in order]
    return bool(kept) and bool(order) and min(order) < max(kept)


def _in_order(statement: Statement, loops: Sequence[Loop]) -> tuple[Loop, ...]:
    return tuple(loop for loop in statement.loops if loop in loops)


def _first(edges: Sequence[Edge]) -> Edge:
    """The edge that says most: a value that is needed, before one that is overwritten."""
    kinds = ["flow", "output", "order", "anti"]
    return min(edges, key=lambda edge: (kinds.index(edge.kind), edge.source.number, edge.sink.number))
