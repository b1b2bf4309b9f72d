"""What a name stands for that no function binds: an imported module, or a builtin of Python."""

from __future__ import annotations

import builtins
import functools

import libcst as cst

from gradwright.doctor.rewrite.scope import Scope
from gradwright.doctor.rewrite.source_text import SourceText, walk


def imported_as(scope: Scope, name: str) -> str:
    """ "torch" for a name that ``import torch as name`` binds, "builtin" for a builtin, "" for all else.

    A name that the file binds in any other way, anywhere, is "".
    """
    imported = _imports(scope.source)
    if name in scope.bindings and name not in imported:
        return ""
    if name in imported:
        return imported[name] if name not in _bound_names(scope.source) else ""
    return "builtin" if hasattr(builtins, name) and name not in _bound_names(scope.source) else ""


def name_for_torch(scope: Scope) -> str | None:
    """The name under which the file has torch, None if it has none."""
    for name, module in _imports(scope.source).items():
        if module == "torch" and imported_as(scope, name) == "torch":
            return name
    return None


@functools.lru_cache(maxsize=4)
def _imports(source: SourceText) -> dict[str, str]:
    """Modules by the name they have in the file, from imports at its top level."""
    found: dict[str, str] = {}
    for statement in source.module.body:
        for small in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
            if isinstance(small, cst.Import):
                for alias in small.names:
                    name = alias.evaluated_name
                    bound = alias.evaluated_alias or name.split(".")[0]
                    found[bound] = name if alias.evaluated_alias else bound
            elif isinstance(small, cst.ImportFrom) and not small.relative and small.module is not None:
                package = source.code(small.module)
                for alias in () if isinstance(small.names, cst.ImportStar) else small.names:
                    found[alias.evaluated_alias or alias.evaluated_name] = f"{package}.{alias.evaluated_name}"
    return found


@functools.lru_cache(maxsize=4)
def _bound_names(source: SourceText) -> frozenset[str]:
    """Every name that the file binds anywhere, other than by an import."""
    found = set()
    for node in walk(source.module):
        if isinstance(node, cst.AssignTarget | cst.For | cst.CompFor | cst.AugAssign | cst.AnnAssign | cst.NamedExpr):
            found |= {one.value for one in walk(node.target) if isinstance(one, cst.Name) and _binds(source, one)}
        elif isinstance(node, cst.FunctionDef | cst.ClassDef | cst.Param | cst.NameItem) and isinstance(
            node.name, cst.Name
        ):
            found.add(node.name.value)
    return frozenset(found)


def _binds(source: SourceText, name: cst.Name) -> bool:
    """Not the ``x`` of ``x.y = ...`` or of ``x[i] = ...``."""
    parent = source.parent(name)
    return isinstance(parent, cst.AssignTarget | cst.Element | cst.For | cst.CompFor | cst.NamedExpr | cst.AugAssign)
