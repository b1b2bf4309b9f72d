"""Where the pieces go in the file: imports with the imports, the kernel before its class, its call for the loop."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from gradwright.doctor.rewrite.kernels.calling import Call
from gradwright.doctor.rewrite.source_text import BOM, DeclinedError, SourceText
from gradwright.doctor.source.statements import definitions

_SHORT = {"numpy": "np", "math": "math", "numba": "numba"}


@dataclass(frozen=True)
class Imports:
    """``names``: what the file calls each module; ``lines``: imports that it lacks; ``torch``: its name for torch."""

    names: dict[str, str]
    lines: dict[str, str]
    torch: str

    def renamed(self, code: str, short: str, own: str) -> str:
        class Rename(ast.NodeTransformer):
            def visit_Name(self, node: ast.Name) -> ast.Name:
                return ast.Name(own, node.ctx) if node.id == short else node

        return ast.unparse(ast.fix_missing_locations(Rename().visit(ast.parse(code))))


@dataclass(frozen=True)
class Placed:
    """``kernel``: the lines of the function; ``imports``: the lines that the file lacks, by module."""

    kernel: list[str]
    imports: dict[str, str]
    call: Call

    @property
    def added(self) -> str:
        return "\n".join([*self.imports.values(), *self.kernel]) + "\n"


def module_names(tree: ast.Module) -> set[str]:
    """Every name that the module binds at its top level, or that a function declares global."""
    found = {one.node.name for one in definitions(tree) if not one.around}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
    inside = {id(n) for one in definitions(tree) for n in ast.walk(one.node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in inside:
            found.add(node.id)
        elif isinstance(node, ast.Global):
            found.update(node.names)
    return found


def imports_for(tree: ast.Module, code: str) -> Imports:
    """Raises: DeclinedError if the file has no name for torch."""
    have: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.Import):
            have |= {
                alias.name: alias.asname or alias.name for alias in node.names if "." not in alias.name or alias.asname
            }
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | module_names(tree)
    stored = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    if "torch" not in have or have["torch"] in stored:
        raise DeclinedError("the file does not import torch by name")
    needed = ["numba", *(module for module in ("numpy", "math") if f"{_SHORT[module]}." in code)]
    names, lines = {}, {}
    for module in needed:
        short = _SHORT[module]
        if module in have and have[module] not in stored:
            names[module] = have[module]
            continue
        own = short if short not in used else f"_{module}"
        if own in used:
            raise DeclinedError(f"the names {short} and {own} are taken in the file")
        names[module] = own
        lines[module] = f"import {module}" + (f" as {own}" if own != module else "")
    return Imports(names, lines, have["torch"])


def place(source: SourceText, tree: ast.Module, outermost: ast.stmt, placed: Placed) -> str:
    """The new text; ``outermost``: the statement of the module that holds the loop."""
    call = placed.call
    edits: list[tuple[int, int, list[str]]] = [(call.first, call.last, call.lines)]
    by_line: dict[int, str] = {}
    for line, start, end, new in sorted(call.after, reverse=True):
        old = by_line.get(line, source.lines[line - 1].rstrip("\r\n")).removeprefix(BOM)
        bytes_ = old.encode()
        by_line[line] = (bytes_[:start] + new.encode() + bytes_[end:]).decode()
    edits += [(line, line, [text]) for line, text in by_line.items()]
    before: dict[int, list[str]] = {}
    for module, text in placed.imports.items():
        before.setdefault(_line_for(tree, module), []).append(text)
    at = _line_of(source, outermost)
    before.setdefault(at, []).extend([*placed.kernel, "", ""])
    for line, above in before.items():
        if len(above) > 1 and above[-1] == "import math":
            above = ["import math", "", *above[:-1]]
        edits.append((line, line, [*above, source.lines[line - 1].rstrip("\r\n")]))
    return source.replaced_lines(edits)


def _line_for(tree: ast.Module, module: str) -> int:
    """The line before which ``import module`` goes: plain imports in the order of the alphabet, math before all."""
    plain = [node for node in tree.body if isinstance(node, ast.Import)]
    if module != "math":
        for node in plain:
            if node.names[0].name in ("numpy", "torch") and node.names[0].name > module:
                return node.lineno
    return plain[0].lineno


def _line_of(source: SourceText, statement: ast.stmt) -> int:
    """The first line of a definition, with its decorators and the comments right above it."""
    first: int = min([statement.lineno, *(mark.lineno for mark in getattr(statement, "decorator_list", []))])
    while first > 1 and source.lines[first - 2].lstrip().startswith("#"):
        first -= 1
    return first
