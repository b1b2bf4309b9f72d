"""Does a round of a loop need what an earlier round has computed? In one sentence, as far as the text shows it."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from gradwright.doctor.source.affine import index_parts, needs_earlier
from gradwright.doctor.source.names import events, exposed
from gradwright.doctor.source.reductions import gathers, key, place_matcher, running_extreme

Loop = ast.For | ast.While

_FRAMES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_ABOUT = {"shape", "dtype", "device", "ndim", "size", "dim", "numel", "stride", "is_cuda", "requires_grad", "layout"}
_ASKS = {"len", "zeros_like", "empty_like", "ones_like", "isinstance", "range", "type", "id"}
_OVERWRITES = {"copy_", "fill_", "zero_", "set_", "normal_", "uniform_"}


def carried_dependence(loop_source: str) -> str:
    """One sentence on a true dependence between iterations, "" if none is evident.

    ``loop_source``: the text of the loop, dedented or as it stands in a file. Sums, products, extremes and lists that
    only grow are none. Cost: quadratic in the number of accesses to one array.

    >>> carried_dependence("for i in range(1, n):\\n    D[i] = D[i - 1] + x[i]")
    'D[i] needs D[i - 1], written by an earlier iteration'
    >>> carried_dependence("for t in range(n):\\n    h = a * h + x[t]")
    'h needs its own value of the iteration before: h = a * h + x[t]'
    >>> carried_dependence("for i in range(n):\\n    y[i] = y[i] + x[i]\\n    total += x[i]")
    ''
    """
    loop = _parsed(loop_source)
    if loop is None:
        return ""
    nest = _Nest(loop)
    return _through_arrays(nest) or _through_names(nest)


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


@dataclass(frozen=True, slots=True)
class _Access:
    """A read or write of an array: its base, its indices, the statement, the loops and branches around it."""

    base: str
    indices: tuple[ast.expr, ...]
    node: ast.expr
    statement: ast.stmt
    loops: tuple[Loop, ...]
    branches: tuple[ast.AST, ...]


class _Nest:
    """A loop with all that happens in its own frame: writes, reads, bindings, and the direction of its variables."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.writes: list[_Access] = []
        self.reads: list[_Access] = []
        self.statements: list[tuple[ast.stmt, tuple[Loop, ...], tuple[ast.AST, ...]]] = []
        self._visit(loop, (), ())
        self.bound = {event.name for event in events([loop], into_functions=False) if event.kind == "bind"}
        self.steps = _inductions([statement for statement, _, _ in self.statements], self.bound)
        for statement, loops, branches in self.statements:
            self._accesses(statement, loops, branches)
        self._whole_reads()

    def directions(self, loops: tuple[Loop, ...]) -> dict[str, int]:
        """The variables of some loops, outermost first, and which way they run."""
        found: dict[str, int] = {}
        for loop in loops:
            if isinstance(loop, ast.For):
                found.update(_directions(loop.target, loop.iter))
            else:
                inside = {event.name for event in events(loop.body, into_functions=False) if event.kind == "bind"}
                found.update({name: step for name, step in self.steps.items() if name in inside})
        return found

    def private(self, base: str, loops: tuple[Loop, ...]) -> tuple[Loop, ...]:
        """The loops left of ``loops`` when those are taken away in whose every round ``base`` is made anew."""
        name = base.split(".")[0]
        depth = 0
        for loop in loops:
            if isinstance(loop, ast.For) and any(
                isinstance(node, ast.Name) and node.id == name for node in ast.walk(loop.target)
            ):
                depth = loops.index(loop) + 1
        for statement, around, _ in self.statements:
            if isinstance(statement, ast.Assign) and any(key(target) == base for target in statement.targets):
                common = [one for one, other in zip(around, loops, strict=False) if one is other]
                depth = max(depth, len(common))
        return loops[depth:]

    def _visit(self, statement: ast.stmt, loops: tuple[Loop, ...], branches: tuple[ast.AST, ...]) -> None:
        self.statements.append((statement, loops, branches))
        if isinstance(statement, _FRAMES):
            return
        if isinstance(statement, (ast.For, ast.While)):
            loops = (*loops, statement)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(statement, name, None) or []
            inside = (
                branches
                if isinstance(statement, (ast.For, ast.While, ast.With))
                else (*branches, (block or [statement])[0])
            )
            for inner in block:
                self._visit(inner, loops, inside)
        for handler in getattr(statement, "handlers", ()):
            for inner in handler.body:
                self._visit(inner, loops, (*branches, handler))

    def _accesses(self, statement: ast.stmt, loops: tuple[Loop, ...], branches: tuple[ast.AST, ...]) -> None:
        stack: list[ast.AST] = [*_own_expressions(statement)]
        while stack:
            node = stack.pop()
            if isinstance(node, ast.Subscript):
                base, indices = index_parts(node)
                stack += indices
                if key(base):
                    access = _Access(key(base), indices, node, statement, loops, branches)
                    augmented = isinstance(statement, ast.AugAssign) and node is statement.target
                    if not isinstance(node.ctx, ast.Load):
                        self.writes.append(access)
                    if isinstance(node.ctx, ast.Load) or augmented:
                        self.reads.append(access)
                else:
                    stack.append(base)
                continue
            if isinstance(node, ast.Attribute) and node.attr in _ABOUT:
                continue
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_"):
                target = node.func.value
                if isinstance(target, ast.Subscript) and key(index_parts(target)[0]):
                    base, indices = index_parts(target)
                    self.writes.append(_Access(key(base), indices, target, statement, loops, branches))
                    if node.func.attr in _OVERWRITES:
                        stack += [*indices, *node.args, *(keyword.value for keyword in node.keywords)]
                        continue
            if not isinstance(node, _FRAMES):
                stack.extend(ast.iter_child_nodes(node))

    def _whole_reads(self) -> None:
        """Reads of a whole array whose elements the loop writes."""
        written = {access.base for access in self.writes}
        for statement, loops, branches in self.statements:
            stack: list[ast.AST] = [*_own_expressions(statement)]
            while stack:
                node = stack.pop()
                if isinstance(node, ast.Subscript):
                    base, indices = index_parts(node)
                    stack += [*indices, *([] if key(base) else [base])]
                elif (
                    isinstance(node, (ast.Name, ast.Attribute))
                    and isinstance(node.ctx, ast.Load)
                    and key(node) in written
                ):
                    self.reads.append(_Access(key(node), (), node, statement, loops, branches))
                elif isinstance(node, ast.Attribute) and node.attr in _ABOUT:
                    continue
                elif isinstance(node, ast.Call) and key(node.func).rsplit(".", 1)[-1] in _ASKS:
                    continue
                elif not isinstance(node, _FRAMES):
                    stack.extend(ast.iter_child_nodes(node))


def _through_arrays(nest: _Nest) -> str:
    for write in nest.writes:
        for read in nest.reads:
            if read.base != write.base:
                continue
            common = tuple(one for one, other in zip(write.loops, read.loops, strict=False) if one is other)
            common = nest.private(write.base, common)
            directions = nest.directions(common)
            changing = frozenset(nest.bound - set(directions))
            if needs_earlier(write.indices, read.indices, directions, changing):
                return f"{_text(write.node)} needs {_text(read.node)}, written by an earlier iteration"
            if _comes_back(write, read, directions) and not _only_gathers(write, read) and not _is_fresh(write, read):
                return f"{_text(write.node)} needs its own value of an earlier iteration: {_text(read.statement)}"
    return ""


def _comes_back(write: _Access, read: _Access, directions: dict[str, int]) -> bool:
    """Whether the element is the same in several rounds: a variable of the loops around does not index it."""
    if len(write.indices) != len(read.indices):
        return False
    inside = {node.id for index in write.indices for node in ast.walk(index) if isinstance(node, ast.Name)}
    same = all(ast.dump(one) == ast.dump(other) for one, other in zip(write.indices, read.indices, strict=True))
    return same and bool(set(directions) - inside)


def _only_gathers(write: _Access, read: _Access) -> bool:
    return write.statement is read.statement and gathers(write.statement, _matching(write.node))


def _matching(node: ast.expr):  # type: ignore[no-untyped-def]
    return place_matcher(node)


def _is_fresh(write: _Access, read: _Access) -> bool:
    """Whether every round writes the element before it reads it."""
    before = write.statement is not read.statement and write.statement.lineno < read.statement.lineno
    return before and write.branches == read.branches[: len(write.branches)] and not _reads_itself(write)


def _reads_itself(write: _Access) -> bool:
    matches = place_matcher(write.node)
    value = getattr(write.statement, "value", None)
    return isinstance(write.statement, ast.AugAssign) or (
        value is not None
        and any(matches(node) and isinstance(getattr(node, "ctx", None), ast.Load) for node in ast.walk(value))
    )


def _through_names(nest: _Nest) -> str:
    for statement, _, _ in nest.statements:
        if isinstance(statement, (ast.For, ast.While)):
            sentence = _carried_by(nest, statement)
            if sentence:
                return sentence
    return ""


def _carried_by(nest: _Nest, loop: Loop) -> str:
    """A name, an attribute or a list that takes its value from round to round of one loop."""
    inside = [statement for statement, loops, _ in nest.statements if loop in loops]
    own = (
        {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
        if isinstance(loop, ast.For)
        else set()
    )
    bound = {event.name for event in events(loop.body, into_functions=False) if event.kind == "bind"}
    carried = exposed(loop.body, own) & bound - set(nest.steps)
    if isinstance(loop, ast.While):
        carried |= {event.name for event in events([loop.test])} & bound - set(nest.steps)
    for name in sorted(carried | _carried_attributes(inside)):
        place = ast.parse(name, mode="eval").body
        sentence = _needs_itself(name, place, inside)
        if sentence:
            return sentence
    return _grown_and_read(inside)


def _carried_attributes(inside: list[ast.stmt]) -> set[str]:
    """Attributes (``self.h``) that are read at or before the place where they are first set."""
    first: dict[str, int] = {}
    for statement in inside:
        for node in _own_nodes(statement):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and key(node):
                first.setdefault(key(node), node.lineno)
    return {
        key(node)
        for statement in inside
        for node in _own_nodes(statement)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and node.lineno <= first.get(key(node), 0)
    } | {
        key(statement.target)
        for statement in inside
        if isinstance(statement, ast.AugAssign) and key(statement.target) in first
    }


def _needs_itself(name: str, place: ast.expr, inside: list[ast.stmt]) -> str:
    matches = place_matcher(place)
    gathering = [
        statement for statement in inside if gathers(statement, matches) or running_extreme(statement, matches)
    ]
    covered = {id(node) for statement in gathering for node in ast.walk(statement)}
    elsewhere = ""
    for statement in inside:
        if id(statement) in covered:
            continue
        nodes = [*_own_nodes(statement)]
        reads = any(matches(node) and isinstance(node.ctx, ast.Load) for node in nodes)  # type: ignore[attr-defined]  # places have it
        sets = any(matches(node) and not isinstance(node.ctx, ast.Load) for node in nodes)  # type: ignore[attr-defined]
        if sets and (reads or isinstance(statement, ast.AugAssign)):
            return f"{name} needs its own value of the iteration before: {_text(statement)}"
        elsewhere = elsewhere or (_text(statement) if reads else "")
    if elsewhere:
        return f"{elsewhere} reads {name}, which earlier iterations have changed"
    return ""


def _grown_and_read(inside: list[ast.stmt]) -> str:
    """``states.append(f(states[-1]))``: a list that is read while it grows."""
    grown = {
        key(node.func.value)
        for statement in inside
        for node in _own_nodes(statement)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append"
    }
    anew = {key(target) for statement in inside if isinstance(statement, ast.Assign) for target in statement.targets}
    for statement in inside:
        for node in _own_nodes(statement):
            if (
                isinstance(node, ast.Subscript)
                and isinstance(node.ctx, ast.Load)
                and key(node.value) in grown - anew - {""}
            ):
                return f"{_text(node)} is what an earlier iteration appended: {_text(statement)}"
    return ""


def _inductions(statements: list[ast.stmt], bound: set[str]) -> dict[str, int]:
    """Names that only count: every round adds the same amount. Their direction: 1, -1, or 0 if the sign is not known."""
    amounts: dict[str, list[int | None]] = {}
    for statement in statements:
        for event in events([statement], into_functions=False) if not getattr(statement, "body", None) else ():
            if event.kind == "bind":
                amounts.setdefault(event.name, []).append(_amount(statement, event.name, bound))
        if isinstance(statement, ast.For):
            for node in ast.walk(statement.target):
                if isinstance(node, ast.Name):
                    amounts.setdefault(node.id, []).append(None)
    return {
        name: (steps[0] or 0) if len(set(steps)) == 1 else 0
        for name, steps in amounts.items()
        if all(step is not None for step in steps)
    }


def _amount(statement: ast.stmt, name: str, bound: set[str]) -> int | None:
    """1 or -1 for ``i += step`` or ``i = i - step``, 0 if the sign can't be told, ``None`` if it is no counting."""
    if isinstance(statement, ast.AugAssign) and key(statement.target) == name:
        op, value = statement.op, statement.value
    elif (
        isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.BinOp)
        and key(statement.value.left) == name
    ):
        op, value = statement.value.op, statement.value.right
    else:
        return None
    sign = 1 if isinstance(op, ast.Add) else -1 if isinstance(op, ast.Sub) else 0
    constant = value.operand if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub) else value
    if not sign or any(isinstance(node, (ast.Subscript, ast.Call)) for node in ast.walk(value)):
        return None
    if isinstance(constant, ast.Constant) and isinstance(constant.value, int):
        return sign if constant is value else -sign
    names = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
    return None if names & bound else 0


def _directions(target: ast.expr, source: ast.expr) -> dict[str, int]:
    """The index variables of a ``for``: which way they run, 0 if that can't be told."""
    name = key(source.func) if isinstance(source, ast.Call) else ""
    if isinstance(source, ast.Call) and isinstance(target, ast.Tuple):
        if name == "enumerate" and len(target.elts) == 2:
            return {key(target.elts[0]): 1, **(_directions(target.elts[1], source.args[0]) if source.args else {})}
        if name == "zip" and len(target.elts) == len(source.args):
            return {
                n: d
                for one, over in zip(target.elts, source.args, strict=True)
                for n, d in _directions(one, over).items()
            }
    if isinstance(source, ast.Call) and isinstance(target, ast.Name):
        if name == "range":
            step = source.args[2] if len(source.args) == 3 else None
            falls = isinstance(step, ast.UnaryOp) and isinstance(step.op, ast.USub)
            known = step is None or isinstance(step, ast.Constant) or falls
            return {target.id: (-1 if falls else 1) if known else 0}
        if name == "reversed" and source.args:
            return {variable: -way for variable, way in _directions(target, source.args[0]).items()}
    return {node.id: 0 for node in ast.walk(target) if isinstance(node, ast.Name)}


def _own_expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """The expressions of a statement itself, not of the statements inside it."""
    for child in ast.iter_child_nodes(statement):
        if not isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            yield child


def _own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    for expression in _own_expressions(statement):
        yield from ast.walk(expression)


def _text(node: ast.AST) -> str:
    text = ast.unparse(node).split("\n")[0]
    return text if len(text) <= 60 else text[:57] + "..."
