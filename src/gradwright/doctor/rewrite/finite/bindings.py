"""Names that a function, or the script's body, gives once: what they stand for, and who reads them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gradwright.doctor.source.statements import blocks


@dataclass(frozen=True)
class Bindings:
    scope: ast.AST
    parents: Mapping[ast.AST, ast.AST]

    def assignment_of(self, node: ast.expr, until: int) -> ast.Assign | None:
        """The only statement that binds the name, if it stands before in the same block, and nothing that it reads is
        bound between it and line ``until``."""
        if not isinstance(node, ast.Name):
            return None
        binding = [one for one in self._names() if _binds(one, node.id)]
        made = self.parents.get(binding[0]) if len(binding) == 1 else None
        if not isinstance(made, ast.Assign) or len(made.targets) != 1 or made.targets[0] is not binding[0]:
            return None
        use: ast.AST = node
        while not isinstance(use, ast.stmt):
            use = self.parents[use]
        if (made.end_lineno or 0) >= use.lineno or self._block(made) is not self._block(use):
            return None
        reads = {one.id for one in ast.walk(made.value) if isinstance(one, ast.Name)}
        later = [one for one in self._names() if made.lineno <= one.lineno <= max(until, use.lineno)]
        bound = any(_binds(one, name) for one in later for name in reads if one.lineno < max(until, use.lineno))
        written = any(
            one.id in reads | {node.id} and self._is_written(one) for one in later if isinstance(one, ast.Name)
        )
        return None if bound or written else made

    def _is_written(self, name: ast.Name) -> bool:
        """``x[i] = 1``, ``x.data = y``, ``x.mul_(2)``."""
        above = self.parents[name]
        while isinstance(above, ast.Subscript | ast.Attribute):
            if isinstance(above.ctx, ast.Store | ast.Del) or (
                isinstance(above, ast.Attribute) and above.attr[-1] == "_"
            ):
                return True
            above = self.parents[above]
        return False

    def _names(self) -> Iterator[ast.Name | ast.arg]:
        return (one for one in ast.walk(self.scope) if isinstance(one, ast.Name | ast.arg))

    def _block(self, statement: ast.stmt) -> list[ast.stmt] | None:
        return next((block for block in blocks(self.parents[statement]) if statement in block), None)

    def uses(self, name: str) -> list[ast.Name]:
        """Where the function (or the script's body) reads a name."""
        return [one for one in self._names() if isinstance(one, ast.Name) and one.id == name and _reads(one)]


def _binds(node: ast.Name | ast.arg, name: str) -> bool:
    if isinstance(node, ast.arg):
        return node.arg == name
    return node.id == name and isinstance(node.ctx, ast.Store | ast.Del)


def _reads(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)
