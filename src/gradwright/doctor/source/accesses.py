"""What a loop nest does in its own frame: elements written and read, names that count, directions of variables."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from gradwright.doctor.source.affine import index_parts
from gradwright.doctor.source.names import events
from gradwright.doctor.source.reductions import key

Loop = ast.For | ast.While
Loops = tuple[Loop, ...]

_FRAMES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_ABOUT = {"shape", "dtype", "device", "ndim", "size", "dim", "numel", "stride", "is_cuda", "requires_grad", "layout"}
_ASKS = {"len", "zeros_like", "empty_like", "ones_like", "isinstance", "range", "type", "id"}
_OVERWRITES = {"copy_", "fill_", "zero_", "set_", "normal_", "uniform_"}


@dataclass(frozen=True, slots=True)
class Access:
    """A read or write of an array: its base, its indices, the statement, the loops and branches around it."""

    base: str
    indices: tuple[ast.expr, ...]
    node: ast.expr
    statement: ast.stmt
    loops: Loops
    branches: tuple[ast.AST, ...]


class Nest:
    """A loop with all that happens in its own frame: writes, reads, bindings, and the direction of its variables."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.writes: list[Access] = []
        self.reads: list[Access] = []
        self.statements: list[tuple[ast.stmt, Loops, tuple[ast.AST, ...]]] = []
        self._visit(loop, (), ())
        self.bound = {event.name for event in events([loop], into_functions=False) if event.kind == "bind"}
        self.steps = _inductions([statement for statement, _, _ in self.statements], self.bound)
        views = _views([statement for statement, _, _ in self.statements])
        for statement, loops, branches in self.statements:
            self._accesses(statement, loops, branches)
            self._through_view(statement, views, loops, branches)
        self._whole_reads()
        self.reads.sort(key=lambda access: (access.node.lineno, access.node.col_offset))

    def directions(self, loops: Loops) -> dict[str, int]:
        """The variables of some loops, outermost first, and which way they run."""
        found: dict[str, int] = {}
        for loop in loops:
            if isinstance(loop, ast.For):
                found.update(_directions(loop.target, loop.iter))
            else:
                inside = {event.name for event in events(loop.body, into_functions=False) if event.kind == "bind"}
                found.update({name: step for name, step in self.steps.items() if name in inside})
        return found

    def private(self, base: str, loops: Loops) -> Loops:
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

    def _visit(self, statement: ast.stmt, loops: Loops, branches: tuple[ast.AST, ...]) -> None:
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

    def _accesses(self, statement: ast.stmt, loops: Loops, branches: tuple[ast.AST, ...]) -> None:
        stack: list[ast.AST] = [*own_expressions(statement)]
        while stack:
            node = stack.pop()
            if isinstance(node, ast.Subscript):
                base, indices = index_parts(node)
                stack += indices
                if key(base):
                    access = Access(key(base), indices, node, statement, loops, branches)
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
                    self.writes.append(Access(key(base), indices, target, statement, loops, branches))
                    if node.func.attr in _OVERWRITES:
                        stack += [*indices, *node.args, *(keyword.value for keyword in node.keywords)]
                        continue
            if not isinstance(node, _FRAMES):
                stack.extend(ast.iter_child_nodes(node))

    def _through_view(
        self, statement: ast.stmt, views: dict[str, ast.Subscript], loops: Loops, branches: tuple[ast.AST, ...]
    ) -> None:
        """``row = y[i]; row += 1`` writes into ``y[i]``."""
        if isinstance(statement, ast.AugAssign) and key(statement.target) in views:
            node = views[key(statement.target)]
            base, indices = index_parts(node)
            access = Access(key(base), indices, node, statement, loops, branches)
            self.writes.append(access)
            self.reads.append(access)

    def _whole_reads(self) -> None:
        """Reads of a whole array whose elements the loop writes; asking for its shape is none."""
        written = {access.base for access in self.writes}
        for statement, loops, branches in self.statements if written else ():
            stack: list[ast.AST] = [*own_expressions(statement)]
            while stack:
                node = stack.pop()
                if isinstance(node, ast.Subscript):
                    base, indices = index_parts(node)
                    stack += [*indices, *([] if key(base) else [base])]
                elif isinstance(node, (ast.Name, ast.Attribute)) and key(node) in written:
                    if isinstance(node.ctx, ast.Load):
                        self.reads.append(Access(key(node), (), node, statement, loops, branches))
                elif not _only_asks(node):
                    stack.extend(ast.iter_child_nodes(node))


def _views(statements: list[ast.stmt]) -> dict[str, ast.Subscript]:
    """Names that stand for a part of an array, and nothing else: ``row = y[i]``."""
    found: dict[str, list[ast.expr]] = {}
    for statement in statements:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(statement.value)
    return {
        name: values[0]
        for name, values in found.items()
        if len(values) == 1 and isinstance(values[0], ast.Subscript) and key(index_parts(values[0])[0])
    }


def _only_asks(node: ast.AST) -> bool:
    """``y.shape``, ``len(y)``, ``zeros_like(y)``; and functions, which run at another time."""
    if isinstance(node, ast.Call):
        return key(node.func).rsplit(".", 1)[-1] in _ASKS
    return isinstance(node, _FRAMES) or (isinstance(node, ast.Attribute) and node.attr in _ABOUT)


def _inductions(statements: list[ast.stmt], bound: set[str]) -> dict[str, int]:
    """Names that only count: every round adds the same amount. Their direction: 1, -1, or 0 if it is not known."""
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


def own_expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """The expressions of a statement itself, not of the statements inside it."""
    for child in ast.iter_child_nodes(statement):
        if not isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            yield child


def own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    for expression in own_expressions(statement):
        yield from ast.walk(expression)
