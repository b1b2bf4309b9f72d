"""A gradient that is wrong in a way its verdict names outright: the one edit that the name asks for.

A missing cotangent is multiplied in, what changed places or sides is put back, what holds no cotangent goes. Where
several edits fit the name, all are proposed: which of them is right is not seen in the text, but tried.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence

import libcst as cst

from gradwright.doctor.rewrite.rescale_gradient import Edit, binds_closely, in_parentheses, rescale_gradient
from gradwright.doctor.rewrite.returned import backward_at, definition_of, element_of, own_nodes, uses_of
from gradwright.doctor.rewrite.source_text import (
    DeclinedError,
    SourceText,
    walk,
)
from gradwright.doctor.session.facts import Fact, GradientVerdict
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.proposal import Proposal
from gradwright.doctor.source.names import words

MOST = 8
_TURNS = words("T mT H mH")
_TURNING = words("t transpose permute swapaxes")
_BENDING = words("abs abs_ clamp clamp_ clip sign relu square sqrt tanh sigmoid pow exp detach")
_PLACES = re.compile(r"(that of a cotangent )?(flipped|rolled) along axis (\d+)")

Edits = Callable[["_Gradient"], Iterator[Edit]]


class _Gradient:
    """What a backward returns for one input: ``node``, where it is made; ``shown``, where it is returned."""

    def __init__(self, source: SourceText, backward: cst.FunctionDef, verdict: GradientVerdict) -> None:
        self.source, self.backward, self.verdict = source, backward, verdict
        self.shown = self.node = element_of(backward, verdict.input_index)
        while isinstance(self.node, cst.Name) and uses_of(backward, source, self.node.value) == 1:
            value = definition_of(backward, self.node)
            if value is None:
                break
            self.node = value
        self.cotangents = [parameter.name.value for parameter in backward.params.params[1:]]
        self.told = f"the gradient of {verdict.input_name}"

    def holds_cotangent(self, node: cst.CSTNode, seen: frozenset[str] = frozenset()) -> bool:
        """By itself, or through what its names stand for; True also where that is not known."""
        for one in walk(node):
            if not isinstance(one, cst.Name) or one.value in seen:
                continue
            if one.value in self.cotangents:
                return True
            value = definition_of(self.backward, one)
            if value is not None and self.holds_cotangent(value, seen | {one.value}):
                return True
        return False

    def reads(self, name: str) -> list[cst.Name]:
        return [node for node in walk(self.node) if isinstance(node, cst.Name) and node.value == name]


def mend_gradient(finding: Finding, facts: Sequence[Fact], source: SourceText) -> tuple[Proposal, ...]:
    """Candidates, best first: a literal factor or a sign mended (``rescale_gradient``), then what the cause names."""
    proposals = list(rescale_gradient(finding, facts, source))
    backward = backward_at(source, finding)
    verdicts = {
        fact.input_index: fact
        for fact in facts
        if isinstance(fact, GradientVerdict) and fact.id in finding.evidence and fact.cause in _BY_CAUSE
    }
    for _, verdict in sorted(verdicts.items()):
        try:
            gradient = _Gradient(source, backward, verdict)
            for edit in itertools.islice(_BY_CAUSE[verdict.cause](gradient), MOST):
                text = source.replaced_node(edit.old, edit.new)
                proposal = source.proposal("mend_gradient", backward, text, edit.what)
                if all(proposal.new_text != other.new_text for other in proposals):
                    proposals.append(proposal)
        except DeclinedError:
            continue
    return tuple(proposals)


# --- what each cause asks for ----------------------------------------------------------------------------------------


def _multiplied(gradient: _Gradient) -> Iterator[Edit]:
    """``2 * x * grad_output`` for ``2 * x``."""
    for name in gradient.cotangents:
        for node in dict.fromkeys((gradient.node, gradient.shown)):
            bare = node if binds_closely(node) else in_parentheses(node)
            new = cst.BinaryOperation(bare, cst.Multiply(), cst.Name(name))
            yield Edit(node, new, f"{gradient.told} is multiplied by {name}")


def _completed(gradient: _Gradient) -> Iterator[Edit]:
    """``grad_output + f`` for ``f``, where the cotangent itself is what is missing."""
    if "the cotangent itself is missing" in gradient.verdict.reason:
        for name in gradient.cotangents:
            new = cst.BinaryOperation(cst.Name(name), cst.Add(), gradient.node)
            yield Edit(gradient.node, new, f"{gradient.told} gets the term {name}, which is missing")


def _swapped(gradient: _Gradient) -> Iterator[Edit]:
    """The returned tuple, with two of its elements at each other's places."""
    index = gradient.verdict.input_index
    for node in own_nodes(gradient.backward):
        if not isinstance(node, cst.Return) or not isinstance(node.value, cst.Tuple):
            continue
        elements = list(node.value.elements)
        for other in range(len(elements)):
            if other == index or _is_none(elements[other].value):
                continue
            new = list(elements)
            new[index] = elements[index].with_changes(value=elements[other].value)
            new[other] = elements[other].with_changes(value=elements[index].value)
            what = f"{gradient.told} and that of input {other} change places"
            yield Edit(node.value, node.value.with_changes(elements=new), what)


def _is_none(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Name) and node.value == "None"


def _turned(gradient: _Gradient) -> Iterator[Edit]:
    """Another factor transposed, the product the other way round, or the whole."""
    node, told = gradient.node, f"{gradient.told} is transposed"
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.MatrixMultiply):
        left, right = _other_way(gradient, node.right), _other_way(gradient, node.left)
        yield Edit(node, node.with_changes(left=left, right=right), told)
        for one, another in ((True, False), (False, True), (True, True)):
            left = _other_way(gradient, node.left) if one else node.left
            right = _other_way(gradient, node.right) if another else node.right
            yield Edit(
                node, node.with_changes(left=left, right=right), f"{gradient.told}: other factors are transposed"
            )
    yield Edit(node, _other_way(gradient, node), told)
    for name in gradient.cotangents:
        for read in gradient.reads(name):
            above = gradient.source.parent(gradient.source.parent(read))
            old = above if isinstance(above, cst.Call) and _unturned(above) is read else read
            yield Edit(old, _other_way(gradient, old), f"{gradient.told}: {name} is transposed")


def _other_way(gradient: _Gradient, node: cst.BaseExpression) -> cst.BaseExpression:
    """``x`` for ``x.t()`` and ``x.T``, ``x.t()`` (or ``x.mT``) for ``x``."""
    if (inner := _unturned(node)) is not None:
        return inner
    bare = node if isinstance(node, cst.Name | cst.Call | cst.Attribute | cst.Subscript) else in_parentheses(node)
    text = gradient.source.text
    if ".t()" in text:
        return cst.Call(cst.Attribute(bare, cst.Name("t")))
    return cst.Attribute(bare, cst.Name("T" if ".T" in text and ".mT" not in text else "mT"))


def _unturned(node: cst.BaseExpression) -> cst.BaseExpression | None:
    if isinstance(node, cst.Attribute) and node.attr.value in _TURNS:
        return node.value
    called = node.func if isinstance(node, cst.Call) else None
    return called.value if isinstance(called, cst.Attribute) and called.attr.value in _TURNING else None


def _put_back(gradient: _Gradient) -> Iterator[Edit]:
    """What was flipped or rolled in the way back, or in the forward only."""
    for node in walk(gradient.node):
        called = node.func if isinstance(node, cst.Call) else None
        if isinstance(called, cst.Attribute) and called.attr.value in ("flip", "roll"):
            assert isinstance(node, cst.Call)
            yield Edit(node, called.value, f"{gradient.told}: .{called.attr.value}() goes")
    found = _PLACES.match(gradient.verdict.reason)
    if found is None:
        return
    of_cotangent, how, axis = found.groups()
    olds: list[cst.BaseExpression] = [gradient.node]
    if of_cotangent:
        olds = [read for name in gradient.cotangents for read in gradient.reads(name)]
    for old in olds:
        bare = old if isinstance(old, cst.Name | cst.Call | cst.Attribute | cst.Subscript) else in_parentheses(old)
        for arguments in (axis,) if how == "flipped" else (f"1, {axis}", f"-1, {axis}"):
            verb = "flip" if how == "flipped" else "roll"
            new = cst.parse_expression(f"_.{verb}({arguments})").with_changes(func=cst.Attribute(bare, cst.Name(verb)))
            yield Edit(old, new, f"{gradient.told} is put back in order along axis {axis}")


def _without_offset(gradient: _Gradient) -> Iterator[Edit]:
    """Terms of a sum that hold no cotangent go."""
    for node in walk(gradient.node):
        if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Add | cst.Subtract):
            continue
        for goes, stays in ((node.right, node.left), (node.left, node.right)):
            if gradient.holds_cotangent(goes) or not gradient.holds_cotangent(stays):
                continue
            if goes is node.left and isinstance(node.operator, cst.Subtract):
                stays = cst.UnaryOperation(cst.Minus(), stays if binds_closely(stays) else in_parentheses(stays))
            if node.lpar and not isinstance(stays, cst.Name | cst.Call | cst.Attribute | cst.Subscript):
                stays = in_parentheses(stays)
            yield Edit(node, stays, f"{gradient.told}: the term that holds no cotangent goes")


def _straightened(gradient: _Gradient) -> Iterator[Edit]:
    """The cotangent itself, where a function of it is taken."""
    for node in walk(gradient.node):
        inner: cst.BaseExpression | None = None
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _BENDING:
            torch_function = isinstance(node.func.value, cst.Name) and node.func.value.value in ("torch", "F")
            inner = node.args[0].value if torch_function and node.args else node.func.value
        elif isinstance(node, cst.BinaryOperation):
            same = isinstance(node.operator, cst.Multiply) and node.left.deep_equals(node.right)
            inner = node.left if same or isinstance(node.operator, cst.Power) else None
        if inner is not None and gradient.holds_cotangent(inner):
            assert isinstance(node, cst.BaseExpression)
            yield Edit(node, inner, f"{gradient.told}: the cotangent is taken as it is")


_BY_CAUSE: dict[str, Edits] = {
    "missing grad_output": _multiplied,
    "dropped term": _completed,
    "swapped inputs": _swapped,
    "transpose": _turned,
    "permutation": _put_back,
    "batch rows mixed": _put_back,
    "additive offset": _without_offset,
    "nonlinear in the cotangent": _straightened,
}
