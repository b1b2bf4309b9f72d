"""One function (or the module's body) as a place where names are bound: which binding reaches a statement."""

from __future__ import annotations

import ast
import builtins
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.ground.syntax import end_position, position

Definition = ast.FunctionDef | ast.AsyncFunctionDef
Position = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Binding:
    """``name`` is bound at ``statement`` (None: on entry). ``value``: to what, where the text says; ``item`` of it."""

    statement: ast.stmt | None
    value: ast.expr | None = None
    item: int | None = None
    items: int = 0
    parameter: int | None = None


class Frame:
    """The frame that ``at`` (a statement, by its position) stands in. ``tree``: the whole file."""

    def __init__(self, tree: ast.Module, at: ast.AST) -> None:
        self.tree = tree
        self.path = _path(tree, position(at))
        self.definitions = [node for node in self.path if isinstance(node, Definition | ast.ClassDef)]
        inner = self.definitions[-1] if self.definitions else None
        self.function = inner if isinstance(inner, Definition) else None
        self.owner = self._owner()
        self.bindings: dict[str, list[Binding]] = defaultdict(list)
        self._parents: dict[ast.AST, ast.AST] = {}
        self.reads: dict[str, list[ast.Name]] = defaultdict(list)
        self._collect()
        self.imports = _imports(tree)
        self._bound_anywhere = _bound_names(tree)

    @classmethod
    def of(cls, tree: ast.Module, function: Definition) -> Frame:
        return cls(tree, function.body[0])

    def _owner(self) -> ast.ClassDef | None:
        """The class whose method the frame is."""
        around = self.definitions[-2] if self.function and len(self.definitions) > 1 else None
        return around if isinstance(around, ast.ClassDef) else None

    @property
    def body(self) -> list[ast.stmt]:
        return self.function.body if self.function else self.tree.body

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        while (parent := self._parents.get(node)) is not None:
            yield parent
            node = parent

    def loops_around(self, node: ast.AST) -> list[ast.AST]:
        return [one for one in self.ancestors(node) if isinstance(one, ast.For | ast.While | ast.AsyncFor)]

    def find(self, node: ast.stmt) -> ast.stmt:
        """This tree's own statement at the place of ``node``."""
        for one in self._parents:
            if (
                isinstance(one, ast.stmt)
                and position(one) == position(node)
                and end_position(one) == end_position(node)
            ):
                return one
        raise DeclinedError("the loop is not where it was")

    def block_of(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements of the block that it stands in."""
        parent = self._parents[statement]
        for field in ("body", "orelse", "finalbody", "handlers"):
            block = getattr(parent, field, None)
            if isinstance(block, list) and any(one is statement for one in block):
                return block
        return [statement]

    def reaching(self, name: str, at: ast.stmt) -> Binding | None:
        """The one binding that ``name`` has when ``at`` begins, whatever way was taken there; None if not known."""
        found = self.bindings.get(name, [])
        around = {at, *self.ancestors(at)}
        before = [one for one in found if one.statement is None or position(one.statement) < position(at)]
        if not before:
            return None
        last = max(before, key=lambda one: position(one.statement) if one.statement is not None else (0, 0))
        if last.statement is None:
            loops: list[ast.AST] = self.loops_around(at)
        else:
            if self._parents[last.statement] not in {*around, self.function or self.tree} or last.statement in around:
                return None
            loops = [loop for loop in self.loops_around(at) if loop not in {*self.ancestors(last.statement)}]
        for other in found:
            if other is last or other.statement is None:
                continue
            if any(loop is other.statement or loop in {*self.ancestors(other.statement)} for loop in loops):
                return None
        return last

    def module_of(self, node: ast.expr) -> str:
        """``torch.exp`` for what ``torch.exp``, ``T.exp`` or an imported ``exp`` mean; ``builtins.abs``; "" else."""
        if isinstance(node, ast.Attribute):
            outer = self.module_of(node.value)
            return f"{outer}.{node.attr}" if outer else ""
        if not isinstance(node, ast.Name):
            return ""
        if node.id in self._bound_anywhere:
            return ""
        if node.id in self.imports:
            return self.imports[node.id]
        return f"builtins.{node.id}" if hasattr(builtins, node.id) else ""

    def torch_name(self) -> str | None:
        """The name under which the file has torch."""
        for name, module in self.imports.items():
            if module == "torch" and name not in self._bound_anywhere:
                return name
        return None

    # --- collecting --------------------------------------------------------------------------------------------------

    def _collect(self) -> None:
        if self.function:
            arguments = self.function.args
            positional = [*arguments.posonlyargs, *arguments.args]
            for index, argument in enumerate(positional):
                self.bindings[argument.arg].append(Binding(None, parameter=index))
            for extra in (*arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
                if extra is not None:
                    self.bindings[extra.arg].append(Binding(None))
        for statement in self.body:
            self._parents[statement] = self.function or self.tree
            self._visit(statement, statement)

    def _visit(self, node: ast.AST, statement: ast.stmt) -> None:
        for child in ast.iter_child_nodes(node):
            self._parents[child] = node
            inner = child if isinstance(child, ast.stmt) else statement
            self._visit(child, inner)
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                self.reads[node.id].append(node)
            else:
                self._bind(node, statement)
        elif isinstance(node, Definition | ast.ClassDef):
            self.bindings[node.name].append(Binding(node))
        elif isinstance(node, ast.alias):
            self.bindings[node.asname or node.name.split(".")[0]].append(Binding(statement))
        elif isinstance(node, ast.ExceptHandler) and node.name:
            self.bindings[node.name].append(Binding(statement))

    def _bind(self, node: ast.Name, statement: ast.stmt) -> None:
        value: ast.expr | None = None
        item, items = None, 0
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                if target is node:
                    value = statement.value
                elif isinstance(target, ast.Tuple | ast.List) and any(one is node for one in target.elts):
                    value, items = statement.value, len(target.elts)
                    item = next(index for index, one in enumerate(target.elts) if one is node)
                    if any(isinstance(one, ast.Starred) for one in target.elts):
                        value, item = None, None
        elif isinstance(statement, ast.AnnAssign) and statement.target is node:
            value = statement.value
        self.bindings[node.id].append(Binding(statement, value, item, items))


def _path(tree: ast.Module, at: Position) -> list[ast.AST]:
    """The statements around a position, outermost first."""
    path: list[ast.AST] = []
    level: list[ast.AST] = [*tree.body]
    while level:
        inside = next(
            (one for one in level if isinstance(one, ast.stmt) and position(one) <= at < end_position(one)),
            None,
        )
        if inside is None:
            wrapped = [
                inner
                for one in level
                if isinstance(one, ast.ExceptHandler | ast.match_case)
                for inner in ast.iter_child_nodes(one)
            ]
            if not wrapped:
                return path
            level = wrapped
            continue
        path.append(inside)
        level = list(ast.iter_child_nodes(inside))
    return path


def _imports(tree: ast.Module) -> dict[str, str]:
    """Modules and what was taken from them, by the name they have in the file, from imports at its top level."""
    found: dict[str, str] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                found[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(statement, ast.ImportFrom) and not statement.level and statement.module:
            for alias in statement.names:
                found[alias.asname or alias.name] = f"{statement.module}.{alias.name}"
    return found


def _bound_names(tree: ast.Module) -> frozenset[str]:
    """Every name that the file binds anywhere, other than by an import."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, Definition | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
    return frozenset(found)
