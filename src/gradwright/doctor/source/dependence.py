"""Does a round of a loop need what an earlier round has computed? In one sentence, as far as the text shows it."""

from __future__ import annotations

import ast
import textwrap

from gradwright.doctor.source.accesses import Access, Loop, Nest, own_nodes
from gradwright.doctor.source.affine import needs_earlier
from gradwright.doctor.source.hidden_state import changed_in_place, draws
from gradwright.doctor.source.names import events, exposed
from gradwright.doctor.source.reductions import Matches, gathers, key, place_matcher, running_extreme, runs_along
from gradwright.doctor.source.running_sums import is_running_step, varies
from gradwright.ground.syntax import shortened


def carried_dependence(loop_source: str) -> str:
    """One sentence on a true dependence between iterations, "" if none is evident.

    ``loop_source``: the text of the loop, dedented or as it stands in a file. Sums, products, extremes and lists that
    only grow are none, nor are running sums and products, whatever reads them. Cost: quadratic in the number of
    accesses to one array.

    >>> carried_dependence("for i in range(1, n):\\n    D[i] = a * D[i - 1] + x[i]")
    'D[i] needs D[i - 1], written by an earlier iteration'
    >>> carried_dependence("for t in range(n):\\n    h = a * h + x[t]")
    'h needs its own value of the iteration before: h = a * h + x[t]'
    >>> carried_dependence("for i in range(n):\\n    y[i] = y[i] + x[i]\\n    total += x[i]")
    ''
    """
    loop = _parsed(loop_source)
    if loop is None:
        return ""
    try:
        nest = Nest(loop)
        return _through_arrays(nest) or _through_names(nest) or changed_in_place(nest) or draws(nest)
    except RecursionError:
        return ""  # generated code


def _parsed(source: str) -> Loop | None:
    lines = source.split("\n")
    # A segment cut out of a file lacks the indentation of its first line only.
    indents = [len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()]
    attempts = [source, textwrap.dedent(source)]
    attempts += [f"if True:\n{' ' * indent}{source}" for indent in sorted(set(indents))]
    for attempt in attempts:
        try:
            tree = ast.parse(attempt)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        found = [node for node in ast.walk(tree) if isinstance(node, (ast.For, ast.While))]
        return found[0] if found else None
    return None


def _through_arrays(nest: Nest) -> str:
    for write in nest.writes:
        for read in nest.reads:
            if read.base != write.base:
                continue
            common = tuple(one for one, other in zip(write.loops, read.loops, strict=False) if one is other)
            common = nest.private(write.base, common)
            directions = nest.directions(common)
            changing = frozenset(nest.bound - set(directions))
            if needs_earlier(write.indices, read.indices, directions, changing):
                if is_running_step(nest, write, read, directions):
                    continue
                return f"{shortened(write.node)} needs {shortened(read.node)}, written by an earlier iteration"
            if _comes_back(write, read, directions) and not _only_gathers(write, read) and not _is_fresh(write, read):
                return (
                    f"{shortened(write.node)} needs its own value of an earlier iteration: {shortened(read.statement)}"
                )
    return ""


def _comes_back(write: Access, read: Access, directions: dict[str, int]) -> bool:
    """Whether the element is the same in several rounds: a variable of the loops around does not index it."""
    if len(write.indices) != len(read.indices):
        return False
    inside = {node.id for index in write.indices for node in ast.walk(index) if isinstance(node, ast.Name)}
    same = all(ast.dump(one) == ast.dump(other) for one, other in zip(write.indices, read.indices, strict=True))
    return same and bool(set(directions) - inside)


def _only_gathers(write: Access, read: Access) -> bool:
    statement = write.statement
    view = place_matcher(statement.target) if isinstance(statement, ast.AugAssign) else place_matcher(write.node)
    return statement is read.statement and (gathers(statement, place_matcher(write.node)) or gathers(statement, view))


def _is_fresh(write: Access, read: Access) -> bool:
    """Whether every round writes the element before it reads it."""
    before = write.statement is not read.statement and write.statement.lineno < read.statement.lineno
    return before and write.branches == read.branches[: len(write.branches)] and not _reads_itself(write)


def _reads_itself(write: Access) -> bool:
    matches = place_matcher(write.node)
    value = getattr(write.statement, "value", None)
    return isinstance(write.statement, ast.AugAssign) or (
        value is not None
        and any(matches(node) and isinstance(getattr(node, "ctx", None), ast.Load) for node in ast.walk(value))
    )


def _through_names(nest: Nest) -> str:
    for statement, _, _ in nest.statements:
        if isinstance(statement, (ast.For, ast.While)):
            sentence = _carried_by(nest, statement)
            if sentence:
                return sentence
    return ""


def _carried_by(nest: Nest, loop: Loop) -> str:
    """A name, an attribute or a list that takes its value from round to round of one loop."""
    inside = [statement for statement, loops, _ in nest.statements if loop in loops]
    own = (
        {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
        if isinstance(loop, ast.For)
        else set()
    )
    bound = {event.name for event in events(loop.body, into_functions=False) if event.kind == "bind"}
    counted = set(nest.steps) - _counted_at_times(nest, loop)
    carried = exposed(loop.body, own) & bound - counted
    if isinstance(loop, ast.While):
        carried |= {event.name for event in events([loop.test])} & bound - counted
    for name in sorted(carried | _carried_attributes(inside)):
        place = ast.parse(name, mode="eval").body
        sentence = _needs_itself(name, place, inside, nest.bound)
        if sentence:
            return sentence
    return _grown_and_read(inside)


def _counted_at_times(nest: Nest, loop: Loop) -> set[str]:
    """Names that count in some iterations only, and that index something: ``if ...: y[k] = x[i]; k += 1``."""
    indices = {
        inner.id
        for statement, loops, _ in nest.statements
        if loop in loops
        for node in own_nodes(statement)
        if isinstance(node, ast.Subscript)
        for inner in ast.walk(node.slice)
        if isinstance(inner, ast.Name)
    }
    return {
        event.name
        for statement, loops, branches in nest.statements
        if loop in loops and branches and isinstance(statement, ast.Assign | ast.AugAssign)
        for event in events([statement])
        if event.kind == "bind" and event.name in nest.steps and event.name in indices
    }


def _carried_attributes(inside: list[ast.stmt]) -> set[str]:
    """Attributes (``self.h``) that are read at or before the place where they are first set."""
    first: dict[str, int] = {}
    for statement in inside:
        for node in own_nodes(statement):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and key(node):
                first.setdefault(key(node), node.lineno)
    return {
        key(node)
        for statement in inside
        for node in own_nodes(statement)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and node.lineno <= first.get(key(node), 0)
    } | {
        key(statement.target)
        for statement in inside
        if isinstance(statement, ast.AugAssign) and key(statement.target) in first
    }


def _needs_itself(name: str, place: ast.expr, inside: list[ast.stmt], bound: set[str]) -> str:
    matches = place_matcher(place)
    gathering = [
        statement for statement in inside if gathers(statement, matches) or running_extreme(statement, matches)
    ]
    covered = {id(node) for statement in gathering for node in ast.walk(statement)}
    running = len(gathering) == 1 and runs_along(gathering[0], matches) and varies(gathering[0], name, bound)
    elsewhere = ""
    for statement in inside:
        if id(statement) in covered:
            continue
        nodes = [*own_nodes(statement)]
        reads = any(matches(node) and isinstance(node.ctx, ast.Load) for node in nodes)  # type: ignore[attr-defined]  # places have it
        sets = any(matches(node) and not isinstance(node.ctx, ast.Load) for node in nodes)  # type: ignore[attr-defined]
        if sets and (reads or isinstance(statement, ast.AugAssign)):
            return f"{name} needs its own value of the iteration before: {shortened(statement)}"
        if reads or sets:
            plain = isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr) and not _in_index(nodes, matches)
            running = running and plain and not sets
        elsewhere = elsewhere or (shortened(statement) if reads else "")
    if elsewhere and not running:
        return f"{elsewhere} reads {name}, which earlier iterations have changed"
    return ""


def _in_index(nodes: list[ast.AST], matches: Matches) -> bool:
    slices = [node.slice for node in nodes if isinstance(node, ast.Subscript)]
    return any(matches(inner) for one in slices for inner in ast.walk(one))


def _grown_and_read(inside: list[ast.stmt]) -> str:
    """``states.append(f(states[-1]))``: a list that is read while it grows."""
    grown = {
        key(node.func.value)
        for statement in inside
        for node in own_nodes(statement)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append"
    }
    anew = {key(target) for statement in inside if isinstance(statement, ast.Assign) for target in statement.targets}
    for statement in inside:
        for node in own_nodes(statement):
            if (
                isinstance(node, ast.Subscript)
                and isinstance(node.ctx, ast.Load)
                and key(node.value) in grown - anew - {""}
            ):
                return f"{shortened(node)} is what an earlier iteration appended: {shortened(statement)}"
    return ""
