"""A gradient that is a constant times the truth: the constant in backward's return is mended.

What the factor should have been called (``ctx.scale``, the batch size) cannot be known from the factor; where no
literal is there to mend, only the plain numbers that people forget (2, 1/2, a sign) are put in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import libcst as cst

from gradwright.doctor.rewrite.returned import backward_at, definition_of, element_of, uses_of
from gradwright.doctor.rewrite.source_text import (
    DeclinedError,
    SourceText,
)
from gradwright.doctor.session.facts import Fact, GradientVerdict
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.proposal import Proposal
from gradwright.doctor.source.names import words

CLOSE = 1e-3
_CAUSES = ("constant factor", "sum for mean", "sign")
LARGEST_DENOMINATOR = 1000
PLAIN = frozenset(Fraction(*pair) for pair in ((2, 1), (3, 1), (4, 1), (1, 2), (1, 3), (1, 4), (-1, 1)))
MOST = 5
# Methods and functions that pass a factor of what they are given on to what they return.
LINEAR = words(
    "t transpose permute reshape view view_as expand expand_as contiguous clone sum mean squeeze unsqueeze flatten "
    "matmul mm bmm mv dot outer einsum mul neg sum_to_size flip roll to float double type_as conj"
)


@dataclass(frozen=True)
class Edit:
    """``old`` becomes ``new``; ``what`` says so."""

    old: cst.BaseExpression
    new: cst.BaseExpression
    what: str


def rescale_gradient(finding: Finding, facts: Sequence[Fact], source: SourceText) -> tuple[Proposal, ...]:
    """Candidates, best first: mend a literal factor, flip a sign that is there, put a plain number in front."""
    verdicts = {
        fact.input_index: fact
        for fact in facts
        if isinstance(fact, GradientVerdict) and fact.id in finding.evidence and fact.cause in _CAUSES
    }
    backward = backward_at(source, finding)
    proposals: list[Proposal] = []
    for index, verdict in sorted(verdicts.items()):
        try:
            for edit in _edits(source, backward, index, _wanted(verdict)):
                text = source.replaced_node(edit.old, edit.new)
                proposal = source.proposal("rescale_gradient", backward, text, edit.what)
                if all(proposal.new_text != other.new_text for other in proposals):
                    proposals.append(proposal)
        except DeclinedError:
            continue
    return tuple(proposals[: MOST * max(1, len(verdicts))])


def _wanted(verdict: GradientVerdict) -> Fraction:
    """What the returned gradient must be multiplied with. Raises: DeclinedError, if that is no plain number."""
    if verdict.cause == "sign":
        return Fraction(-1)
    if not verdict.factor:
        raise DeclinedError("the factor is not known")
    returned = Fraction(verdict.factor)
    for largest in (10, LARGEST_DENOMINATOR):
        near = returned.limit_denominator(largest)
        for plain in ((1 / returned).limit_denominator(largest), 1 / near if near else Fraction(0)):
            if plain and abs(float(plain) * verdict.factor - 1) < CLOSE:
                return plain
    raise DeclinedError("the factor is no plain number")


# --- what could be changed in it -------------------------------------------------------------------------------------


def _edits(source: SourceText, backward: cst.FunctionDef, index: int, wanted: Fraction) -> Iterator[Edit]:
    shown = element = element_of(backward, index)
    while isinstance(element, cst.Name) and (value := definition_of(backward, element)) is not None:
        if uses_of(backward, source, element.value) != 1:
            break  # others read it too: it is scaled where it is returned
        element = value
    told = f"the gradient of input {index}"
    factors = list(_factors(source, backward, element))
    mended = False
    for node, owner, divides in factors:
        if (new := _mended(node, owner, divides, wanted)) is not None:
            mended = True
            yield Edit(new[0], new[1], f"{told}: {new[2]}")
    if wanted == -1:
        for node, _, _ in factors:
            for flipped in _flipped(node):
                mended = True
                yield Edit(node, flipped, f"{told}: a sign is flipped")
    if wanted in PLAIN and not mended:
        yield Edit(element, scaled(element, wanted), f"{told} is multiplied by {wanted}")
        if shown is not element and isinstance(shown, cst.Name):
            yield Edit(shown, scaled(shown, wanted), f"{told} is multiplied by {wanted}")


Factor = tuple[cst.BaseExpression, cst.BaseExpression | None, bool]


def _factors(source: SourceText, backward: cst.FunctionDef, node: cst.BaseExpression) -> Iterator[Factor]:
    """Everything that multiplies the whole: (node, the product or quotient it stands in, whether it divides)."""
    yield from _below(source, backward, node, None, False, frozenset())


def _below(
    source: SourceText,
    backward: cst.FunctionDef,
    node: cst.BaseExpression,
    owner: cst.BaseExpression | None,
    divides: bool,
    seen: frozenset[str],
) -> Iterator[Factor]:
    yield node, owner, divides
    if isinstance(node, cst.BinaryOperation):
        if isinstance(node.operator, cst.Multiply | cst.MatrixMultiply | cst.Divide):
            yield from _below(source, backward, node.left, node, divides, seen)
            quotient = isinstance(node.operator, cst.Divide)
            yield from _below(source, backward, node.right, node, divides != quotient, seen)
    elif isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        yield from _below(source, backward, node.expression, node, divides, seen)
    elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in LINEAR:
        for inner in (node.func.value, *(argument.value for argument in node.args[:3])):
            if not isinstance(inner, cst.Integer | cst.Float | cst.UnaryOperation):
                yield from _below(source, backward, inner, None, divides, seen)
    elif isinstance(node, cst.Name) and node.value not in seen and uses_of(backward, source, node.value) == 1:
        value = definition_of(backward, node)
        if value is not None:
            yield from _below(source, backward, value, None, divides, seen | {node.value})


def _mended(
    node: cst.BaseExpression, owner: cst.BaseExpression | None, divides: bool, wanted: Fraction
) -> tuple[cst.BaseExpression, cst.BaseExpression, str] | None:
    """A literal with the factor in it, or the product without the literal."""
    if not isinstance(node, cst.Integer | cst.Float) or not isinstance(owner, cst.BinaryOperation | cst.UnaryOperation):
        return None
    now = Fraction(str(node.evaluated_value))
    if not now:
        return None
    new = now / wanted if divides else now * wanted
    text = written(new)
    if text is None or new < 0:
        return None
    if new != 1:
        return node, _number(text), f"{node.value} becomes {text}"
    if isinstance(owner, cst.UnaryOperation):
        return None
    if owner.right is node:
        return owner, _outer(owner, owner.left), f"the factor {node.value} goes"
    if isinstance(owner.operator, cst.Divide):
        return node, _number("1"), f"{node.value} becomes 1"
    return owner, _outer(owner, owner.right), f"the factor {node.value} goes"


def _flipped(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        yield _outer(node, node.expression)
    elif isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Subtract):
        right = node.right
        left = node.left
        if isinstance(left, cst.BinaryOperation) and isinstance(left.operator, cst.Add | cst.Subtract):
            left = in_parentheses(left)
        if isinstance(right, cst.BinaryOperation) and right.lpar and binds_closely(right):
            right = right.with_changes(lpar=[], rpar=[])
        yield node.with_changes(left=right, right=left)
    elif (
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and node.func.attr.value == "neg"
        and not node.args
    ):
        yield node.func.value


def scaled(node: cst.BaseExpression, wanted: Fraction) -> cst.BaseExpression:
    """``2 * x * g`` for ``x * g``, ``-g`` for ``g``, ``(a + b) / 3`` for ``a + b``."""
    bare = node if node.lpar or binds_closely(node) else in_parentheses(node)
    if wanted == -1:
        return cst.UnaryOperation(cst.Minus(), bare)
    text = written(wanted)
    if text is None:
        return cst.BinaryOperation(bare, cst.Divide(), cst.Integer(str(wanted.denominator)))
    # `c * (a * b)` as `c * a * b`: the literal binds to the first factor, which is the same number
    return cst.BinaryOperation(_number(text), cst.Multiply(), bare)


def written(number: Fraction) -> str | None:
    """``2`` or ``0.25``; None for what has no short decimal."""
    if number.denominator == 1:
        return str(number.numerator)
    text = repr(float(number))
    return text if Fraction(text) == number and len(text) <= 7 else None


def _number(text: str) -> cst.BaseExpression:
    return cst.parse_expression(text)


def binds_closely(node: cst.BaseExpression) -> bool:
    """No sum, no condition: it can stand in a product without parentheses."""
    if isinstance(node, cst.BinaryOperation):
        return isinstance(node.operator, cst.Multiply | cst.Divide | cst.MatrixMultiply | cst.Power)
    return isinstance(node, cst.Name | cst.Call | cst.Attribute | cst.Subscript | cst.Integer | cst.Float)


def in_parentheses(node: cst.BaseExpression) -> cst.BaseExpression:
    if node.lpar:
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def _outer(old: cst.BaseExpression, new: cst.BaseExpression) -> cst.BaseExpression:
    """``new`` in the place of ``old``, in the parentheses of ``old`` where it needs any."""
    if old.lpar and not new.lpar and not isinstance(new, cst.Name | cst.Call | cst.Attribute | cst.Subscript):
        return new.with_changes(lpar=old.lpar, rpar=old.rpar)
    return new
