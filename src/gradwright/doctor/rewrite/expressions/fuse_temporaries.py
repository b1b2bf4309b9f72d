"""``2 * x * g`` becomes ``(x * g).mul_(2)``, ``a + 2 * b`` ``torch.add(a, b, alpha=2)``; or see ``write_formula``."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gradwright.doctor.rewrite.expressions.splice import Splice
from gradwright.doctor.rewrite.expressions.write_formula import write_formula
from gradwright.doctor.rewrite.source_text import DeclinedError, SourceText
from gradwright.doctor.session.facts import Fact
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.proposal import Proposal
from gradwright.doctor.source.expressions.suspect import Suspect
from gradwright.doctor.source.expressions.temporaries import PLAIN, Scaled, Summed, read_scaled, read_summed


def fuse_temporaries(finding: Finding, facts: Sequence[Fact], source: SourceText) -> tuple[Proposal, ...]:
    """One candidate; of a long chain first the formula. Raises: DeclinedError."""
    splice = Splice(source)
    suspect = splice.suspect("temporaries", finding)
    found: list[Proposal] = []
    reason = DeclinedError("")
    for write in (write_formula, _write_in_torch) if suspect.others else (_write_in_torch,):
        try:
            found.append(write(splice, suspect))
        except DeclinedError as error:
            reason = error
    if not found:
        raise reason
    return tuple(found)


def _write_in_torch(splice: Splice, suspect: Suspect) -> Proposal:
    node = suspect.node
    if not isinstance(node, ast.BinOp):
        raise DeclinedError("it is no product and no sum")
    if (scaled := read_scaled(node)) is not None:
        new, what = _in_place(splice, scaled), "the number is multiplied in place, into the product that is ours"
    elif (summed := read_summed(node)) is not None and _stays_readable(summed):
        new = _fused(splice, summed, splice.torch(suspect.function))
        what = "product and sum are one pass, without the product in memory"
    else:
        raise DeclinedError("it is no product and no sum")
    text = splice.replaced([(splice.with_own_parentheses(node), new)])
    return splice.proposal("fuse_temporaries", suspect.function, text, what)


def _stays_readable(summed: Summed) -> bool:
    return all(one is None or isinstance(one, PLAIN) for one in (summed.added, summed.first, summed.second))


def _in_place(splice: Splice, scaled: Scaled) -> str:
    product = " * ".join(map(splice.factor, scaled.factors))
    number = splice.code(scaled.number)
    if number == "-1":
        return f"({product}).neg_()"
    return f"({product}).{'div_' if scaled.divides else 'mul_'}({number})"


def _fused(splice: Splice, summed: Summed, torch: str) -> str:
    added, first = splice.code(summed.added), splice.code(summed.first)
    if summed.second is None:
        assert summed.number is not None
        function = "sub" if summed.minus else "add"
        return f"{torch}.{function}({added}, {first}, alpha={splice.code(summed.number)})"
    number = splice.code(summed.number) if summed.number is not None else "1"
    if summed.minus:
        number = number.removeprefix("-") if number.startswith("-") else f"-{number}"
    value = f", value={number}" if number != "1" else ""
    return f"{torch}.addcmul({added}, {first}, {splice.code(summed.second)}{value})"
