"""A Function that nobody needs becomes a plain function of its forward's own lines: autograd does the rest.

Nothing else may know the class: every use of its name is ``Name.apply``, which becomes the function's name.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Iterator
from dataclasses import replace

from gradwright.doctor.rewrite.expressions.splice import Splice
from gradwright.doctor.rewrite.plain_body import PlainBody
from gradwright.doctor.rewrite.source_text import BOM, DeclinedError, SourceText, split_lines
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.proposal import Proposal

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def plain_forward(finding: Finding, source: SourceText) -> Proposal:
    """The class as a function, its calls as calls of it. Raises: DeclinedError, with the reason in one sentence."""
    splice = Splice(source)
    owner = _class_at(splice.tree, finding.location.line)
    body = PlainBody(splice, owner)
    uses = list(_uses(splice.tree, owner))
    alias = _alias(splice, owner, uses)
    name = alias.targets[0].id if alias is not None else _free_name(splice, owner.name)  # type: ignore[attr-defined]  # as _alias has seen
    lines = body.function(name)
    edits = [(body.span, "".join(lines))]
    edits += [(splice.span(use), name) for use in uses if alias is None or use is not alias.value]
    if alias is not None:
        edits.append((_lines_of(splice, alias), ""))
    what = f"`{owner.name}` is the plain function `{name}`: autograd derives the same backward"
    proposal = source.proposal("plain_forward", None, splice.replaced(edits), what)
    first = proposal.new_text.removeprefix(BOM)[: body.span[0]].count("\n") + 1
    last = first + len(split_lines("".join(lines))) - 1
    return replace(proposal, function=name, lines=(first, last), changed=tuple(range(first, last + 1)))


def _class_at(tree: ast.Module, line: int) -> ast.ClassDef:
    found = None
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.lineno <= line <= (node.end_lineno or 0):
            found = node
    if found is None:
        raise DeclinedError("no class stands at this line")
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and found in node.body:
            raise DeclinedError(f"{found.name} is part of the class {node.name}")
    return found


def _uses(tree: ast.Module, owner: ast.ClassDef) -> Iterator[ast.Attribute]:
    """``Name.apply`` wherever it stands outside the class. Raises: DeclinedError, if the name is used otherwise."""
    inside = {node for node in ast.walk(owner) if node is not owner}
    applied = {
        node.value: node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "apply" and isinstance(node.ctx, ast.Load)
    }
    for node in ast.walk(tree):
        if node is owner or not any(_says(value, owner.name) for _, value in ast.iter_fields(node)):
            continue
        if not isinstance(node, ast.Name) or node not in applied:
            line = getattr(node, "lineno", owner.lineno)
            raise DeclinedError(f"line {line} uses {owner.name} otherwise than by {owner.name}.apply")
        if node not in inside:
            yield applied[node]


def _says(value: object, name: str) -> bool:
    """Whether a field of a node is the name, or a text that may mean it: in ``__all__``, or the name of its node."""
    if isinstance(value, list):
        return name in [one for one in value if isinstance(one, str)]
    return isinstance(value, str) and (value == name or f"{name}Backward" in value)


def _alias(splice: Splice, owner: ast.ClassDef, uses: list[ast.Attribute]) -> ast.Assign | None:
    """``square = Square.apply`` right in the block of the class, if nothing else is ever bound to that name."""
    block = next(body for body in _blocks(splice.tree) if owner in body)
    for statement in block:
        if not isinstance(statement, ast.Assign) or statement.value not in uses or len(statement.targets) != 1:
            continue
        target = statement.targets[0]
        if not isinstance(target, ast.Name) or not _stands_alone(splice, statement):
            continue
        bound = [node for node in ast.walk(splice.tree) if target.id in _bound_by(node)]
        early = any(
            isinstance(node, ast.Name) and node.id == target.id and node.lineno < statement.lineno
            for node in ast.walk(splice.tree)
        )
        if bound == [target] and not early:
            return statement
    return None


def _blocks(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            if isinstance(block := getattr(node, field, None), list):
                yield block


def _bound_by(node: ast.AST) -> set[str]:
    """The names that a node itself binds."""
    if isinstance(node, ast.Name):
        return set() if isinstance(node.ctx, ast.Load) else {node.id}
    if isinstance(node, ast.arg):
        return {node.arg}
    if isinstance(node, ast.alias):
        return {(node.asname or node.name).split(".")[0]}
    if isinstance(node, ast.Global | ast.Nonlocal):
        return set(node.names)
    name = getattr(node, "name", None)
    return {name} if isinstance(name, str) else set()


def _stands_alone(splice: Splice, statement: ast.stmt) -> bool:
    try:
        splice.line_span(statement)
    except DeclinedError:
        return False
    return True


def _lines_of(splice: Splice, statement: ast.stmt) -> tuple[int, int]:
    """The statement's lines, and the empty ones before it where empty ones follow."""
    first, last = splice.line_span(statement)
    before, after = splice.text[:first], splice.text[last:]
    if not after.strip() or not split_lines(after)[0].strip():
        first = len(before.rstrip()) + len(splice.newline(statement)) if before.strip() else first
    return first, last


def _free_name(splice: Splice, class_name: str) -> str:
    """``square`` for ``Square``, if nothing in the file has that name."""
    wanted = _HUMP.sub("_", class_name).lower()
    used = {name for node in ast.walk(splice.tree) for name in _bound_by(node)}
    used |= {node.id for node in ast.walk(splice.tree) if isinstance(node, ast.Name)}
    for name in (wanted, f"plain_{wanted}", f"{wanted}_function"):
        if name not in used and not keyword.iskeyword(name) and not hasattr(builtins, name):
            return name
    raise DeclinedError(f"the name {wanted} is taken")
