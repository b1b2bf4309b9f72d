"""Walks over statements, and what the file's imports call things."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gradwright.ground.syntax import dotted_names

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_COMPOUND = (*DEFINITIONS, ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith, ast.Try, ast.Match)


def blocks(statement: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements directly inside a statement: body, else, handlers, finally, cases."""
    if not isinstance(statement, (*_COMPOUND, ast.Module, ast.TryStar)):
        return
    for case in getattr(statement, "cases", ()):
        yield case.body
    for name in ("body", "handlers", "orelse", "finalbody"):
        block = getattr(statement, name, None)
        if name == "handlers":
            for handler in block or ():
                yield handler.body
        elif block:
            yield block


def statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Every statement, those of nested functions and classes too, in the order of the text."""
    stack = [iter(body)]
    while stack:
        statement = next(stack[-1], None)
        if statement is None:
            stack.pop()
            continue
        yield statement
        stack.extend(iter(block) for block in reversed([*blocks(statement)]))


@dataclass(frozen=True, slots=True)
class Placed:
    """A function or class with the definitions around it, outermost first."""

    node: Definition
    around: tuple[Definition, ...]

    @property
    def qualname(self) -> str:
        """As Python's own ``__qualname__``."""
        return qualname((*self.around, self.node))


def qualname(chain: tuple[Definition, ...]) -> str:
    """The ``__qualname__`` of the last of nested definitions; ``<module>`` for none.

    >>> tree = ast.parse("class A:\\n  def f(self):\\n    def g(): pass")
    >>> qualname(tuple(node for node in statements(tree.body) if isinstance(node, DEFINITIONS)))
    'A.f.<locals>.g'
    """
    parts = []
    for definition in chain:
        parts += [definition.name] if isinstance(definition, ast.ClassDef) else [definition.name, "<locals>"]
    if parts and parts[-1] == "<locals>":
        parts.pop()
    return ".".join(parts) or "<module>"


def definitions(tree: ast.Module) -> Iterator[Placed]:
    """Every function and class of a file, with what stands around it."""
    stack: list[tuple[ast.stmt, tuple[Definition, ...]]] = [(statement, ()) for statement in reversed(tree.body)]
    while stack:
        statement, around = stack.pop()
        if isinstance(statement, DEFINITIONS):
            yield Placed(statement, around)
            around = (*around, statement)
        for block in reversed([*blocks(statement)]):
            stack.extend((inner, around) for inner in reversed(block))


class Origins:
    """What the names of a file mean by its imports, wherever in the file they stand.

    >>> origins = Origins(ast.parse("from torch.autograd import grad as g\\nimport torch.nn.functional as F"))
    >>> origins.dotted(ast.parse("F.relu", mode="eval").body), origins.dotted(ast.parse("g", mode="eval").body)
    ('torch.nn.functional.relu', 'torch.autograd.grad')
    """

    def __init__(self, tree: ast.Module) -> None:
        self.names: dict[str, str] = {}
        self.star = False
        for statement in statements(tree.body):
            if isinstance(statement, ast.Import):
                for alias in statement.names:
                    name = alias.asname or alias.name.split(".")[0]
                    self.names[name] = alias.name if alias.asname else name
            elif isinstance(statement, ast.ImportFrom):
                module = "." * statement.level + (statement.module or "")
                for alias in statement.names:
                    self.star = self.star or alias.name == "*"
                    self.names[alias.asname or alias.name] = f"{module}.{alias.name}"
        self.roots = {name.split(".")[0] for name in self.names.values()}

    def dotted(self, node: ast.AST) -> str:
        """``torch.autograd.grad`` for whatever the file calls it; "" for what is no dotted name."""
        names = dotted_names(node)
        return ".".join([self.names.get(names[0], names[0]), *names[1:]]) if names else ""


_FUNCTION = {"torch.autograd.Function", "torch.autograd.function.Function", "autograd.Function", "Function"}
_FUNCTION |= {"torch.autograd.function.InplaceFunction", "torch.autograd.function.NestedIOFunction"}


def function_classes(tree: ast.Module, origins: Origins) -> set[ast.ClassDef]:
    """The classes that are custom autograd Functions: by their bases, through classes of the same file, or by form.

    By form: a base that is not seen here, and ``forward`` and ``backward`` as static methods.
    """
    classes = [placed.node for placed in definitions(tree) if isinstance(placed.node, ast.ClassDef)]
    found = {node for node in classes if node.bases and {"forward", "backward"} <= _static_methods(node)}
    names = set(_FUNCTION)
    while True:
        found |= {node for node in classes if any(origins.dotted(base) in names for base in node.bases)}
        known = names | {node.name for node in found}
        if known == names:
            return found
        names = known


def _static_methods(node: ast.ClassDef) -> set[str]:
    return {
        method.name
        for method in node.body
        if isinstance(method, ast.FunctionDef)
        and any(isinstance(mark, ast.Name) and mark.id == "staticmethod" for mark in method.decorator_list)
    }


def last_import_line(tree: ast.Module) -> int:
    """The last line of the imports at the top of a file; of its docstring, where it has none; 0 for nothing at all."""
    last = 0
    for position, statement in enumerate(tree.body):
        docstring = position == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not docstring and not isinstance(statement, (ast.Import, ast.ImportFrom)):
            break
        last = statement.end_lineno or statement.lineno
    return last
