"""What a name stands for that no function binds: an imported module, or a builtin of Python."""

from __future__ import annotations

import builtins

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
        return imported[name] if not _bound_otherwise(scope.source, name) else ""
    return "builtin" if hasattr(builtins, name) and not _bound_otherwise(scope.source, name) else ""


def name_for_torch(scope: Scope) -> str | None:
    """The name under which the file has torch, None if it has none."""
    for name, module in _imports(scope.source).items():
        if module == "torch" and imported_as(scope, name) == "torch":
            return name
    return None


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


def _bound_otherwise(source: SourceText, name: str) -> bool:
    for node in walk(source.module):
        if isinstance(node, cst.AssignTarget | cst.For | cst.CompFor | cst.AugAssign | cst.AnnAssign | cst.NamedExpr):
            targets = walk(node.target)
            if any(isinstance(one, cst.Name) and one.value == name and _binds(source, one) for one in targets):
                return True
        elif (
            isinstance(node, cst.FunctionDef | cst.ClassDef | cst.Param | cst.NameItem)
            and isinstance(node.name, cst.Name)
            and node.name.value == name
        ):
            return True
    return False


def _binds(source: SourceText, name: cst.Name) -> bool:
    """Not the ``x`` of ``x.y = ...`` or of ``x[i] = ...``."""
    parent = source.parent(name)
    return isinstance(parent, cst.AssignTarget | cst.Element | cst.For | cst.CompFor | cst.NamedExpr | cst.AugAssign)
