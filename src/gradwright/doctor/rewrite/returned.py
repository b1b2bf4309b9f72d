"""Where a backward writes the gradient of one input."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gradwright.doctor.rewrite.source_text import DeclinedError, SourceText, walk
from gradwright.doctor.session.model import Finding


def backward_at(source: SourceText, finding: Finding) -> cst.FunctionDef:
    """The ``backward`` of the innermost class at the finding's line. Raises: DeclinedError."""
    line = finding.location.line
    found = None
    for node in source.functions():
        owner = source.enclosing_class(node)
        first = min((source.first_line(one) for one in (owner, *owner.decorators)), default=0) if owner else 0
        if owner and node.name.value == "backward" and first <= line <= source.last_line(owner):
            found = node
    if found is None:
        raise DeclinedError("no backward at this line")
    return found


def own_nodes(function: cst.FunctionDef) -> Iterator[cst.CSTNode]:
    """The nodes of a function without those of the functions inside it."""

    def below(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        for child in node.children:
            if not isinstance(child, cst.FunctionDef | cst.Lambda | cst.ClassDef):
                yield child
                yield from below(child)

    return below(function.body)


def element_of(backward: cst.FunctionDef, index: int) -> cst.BaseExpression:
    """What backward returns for input ``index``. Raises: DeclinedError, if that is not one expression."""
    found = []
    for node in own_nodes(backward):
        if isinstance(node, cst.Return) and node.value is not None:
            value: cst.BaseExpression = node.value
            if isinstance(value, cst.Tuple):
                if any(isinstance(item, cst.StarredElement) for item in value.elements) or index >= len(value.elements):
                    raise DeclinedError("a tuple that is not written out")
                value = value.elements[index].value
            elif index:
                raise DeclinedError("the returned tuple is made elsewhere")
            if not (isinstance(value, cst.Name) and value.value == "None"):
                found.append(value)
    if len(found) != 1:
        raise DeclinedError("no return, or several")
    return found[0]


def definition_of(backward: cst.FunctionDef, name: cst.Name) -> cst.BaseExpression | None:
    """The one expression, besides None, that a local name stands for; None if there is another way to bind it."""
    values: list[cst.BaseExpression] = []
    for node in own_nodes(backward):
        if isinstance(node, cst.Assign):
            for target in node.targets:
                if isinstance(target.target, cst.Name):
                    values += [node.value] if target.target.value == name.value else []
                elif any(isinstance(one, cst.Name) and one.value == name.value for one in walk(target.target)):
                    return None
        elif (
            isinstance(node, cst.AugAssign | cst.AnnAssign | cst.NamedExpr | cst.For | cst.CompFor)
            and isinstance(node.target, cst.Name)
            and node.target.value == name.value
        ):
            return None
    plain = [one for one in values if not (isinstance(one, cst.Name) and one.value == "None")]
    return plain[0] if len(plain) == 1 else None


def uses_of(backward: cst.FunctionDef, source: SourceText, name: str) -> int:
    reads = 0
    for node in own_nodes(backward):
        if isinstance(node, cst.Name) and node.value == name:
            parent = source.parent(node)
            label = (isinstance(parent, cst.Attribute) and parent.attr is node) or isinstance(parent, cst.AssignTarget)
            reads += not label
    return reads
