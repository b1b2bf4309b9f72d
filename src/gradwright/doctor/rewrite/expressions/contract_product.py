"""``(a[:, :, None] * b[None]).sum(1)`` becomes ``torch.einsum("ij,jk->ik", a, b)``: the product is never made."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gradwright.doctor.rewrite.expressions.splice import Splice
from gradwright.doctor.rewrite.source_text import DeclinedError, SourceText
from gradwright.doctor.session.facts import CostlyExpression, Fact
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.proposal import Proposal
from gradwright.doctor.source.expressions.product_summed import Sum, axes_of, read_sum

LETTERS = "ijklmnopqrst"


def contract_product(finding: Finding, facts: Sequence[Fact], source: SourceText) -> tuple[Proposal, ...]:
    """One candidate. Raises: DeclinedError.

    Einsum broadcasts axes of length 1 as the product does, so that nothing is taken of the sizes that were seen; how
    many axes each factor has is (a subscript names every axis).
    """
    splice = Splice(source)
    suspect = splice.suspect("product summed", finding)
    fact = next((fact for fact in facts if isinstance(fact, CostlyExpression) and fact.shapes), None)
    read = read_sum(suspect.node, splice.origins) if isinstance(suspect.node, ast.Call) else None
    if fact is None or read is None or len(fact.shapes) != len(read.factors):
        raise DeclinedError("how many axes the factors have is not known")
    equation, bases = _equation(read, [len(shape) for shape in fact.shapes])
    operands = ", ".join(splice.code(base) for base in bases)
    new = f'{splice.torch(suspect.function)}.einsum("{equation}", {operands})'
    if read.keep:
        new += f".unsqueeze({(read.axes or ())[0]})"
    text = splice.replaced([(splice.span(suspect.node), new)])
    what = "the product is summed as it is made: torch.einsum never holds it whole"
    return (splice.proposal("contract_product", suspect.function, text, what),)


def _equation(read: Sum, ranks: Sequence[int]) -> tuple[str, list[ast.expr]]:
    """``ij,jk->ik`` and what it is taken of."""
    rank = max(ranks)
    if rank > len(LETTERS):
        raise DeclinedError("the product has too many axes")
    summed = set(range(rank)) if read.axes is None else {axis % rank for axis in read.axes if -rank <= axis < rank}
    if read.axes is not None and len(summed) != len(read.axes):
        raise DeclinedError("the sum names an axis twice, or one that is not there")
    if read.keep and len(summed) != 1:
        raise DeclinedError("several axes are kept with length 1")
    subscripts, bases = [], []
    for factor, own_rank in zip(read.factors, ranks, strict=True):
        viewed = axes_of(factor, own_rank)
        if viewed is None:
            raise DeclinedError("an index of a factor does not fit its axes")
        base, own = viewed
        first = rank - own_rank
        subscripts.append("".join(LETTERS[first + axis] for axis, mine in enumerate(own) if mine))
        bases.append(base)
    result = "".join(LETTERS[axis] for axis in range(rank) if axis not in summed)
    if not set(LETTERS[:rank]) <= set("".join(subscripts)):
        raise DeclinedError("an axis of the product belongs to none of its factors")
    return f"{','.join(subscripts)}->{result}", bases
