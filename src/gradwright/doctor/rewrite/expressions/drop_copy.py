"""``x.clone() * 2`` becomes ``x * 2``; ``x * b.repeat(n, 1)`` becomes ``x * b.expand(n, -1)``, which copies nothing.

``x.t().contiguous() @ y`` and ``torch.tensor(x) * 2`` become ``x.t() @ y`` and ``x.detach() * 2``.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gradwright.doctor.rewrite.expressions.splice import Splice
from gradwright.doctor.rewrite.source_text import DeclinedError, SourceText
from gradwright.doctor.session.facts import CostlyExpression, Fact
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.proposal import Proposal
from gradwright.doctor.source.expressions.product_summed import axes_of
from gradwright.doctor.source.expressions.suspect import integer


def drop_copy(finding: Finding, facts: Sequence[Fact], source: SourceText) -> tuple[Proposal, ...]:
    """One candidate. Raises: DeclinedError."""
    splice = Splice(source)
    suspect = splice.suspect("copy", finding)
    call = suspect.node
    assert isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
    if call.func.attr == "tensor":
        new = f"{splice.closed(suspect.parts[0])}.detach()"
        what = "the tensor is not copied: what reads it makes new memory anyway"
    elif call.func.attr != "repeat":
        above = [one for one in ast.walk(suspect.function) if isinstance(one, ast.Assign | ast.Return)]
        alone = any(one.value is call for one in above)
        new = splice.code(suspect.parts[0]) if alone else splice.closed(suspect.parts[0])
        what = "the copy goes: what reads it makes new memory anyway"
    else:
        fact = next((fact for fact in facts if isinstance(fact, CostlyExpression) and fact.shapes), None)
        if fact is None:
            raise DeclinedError("how many axes it has is not known")
        sizes = ", ".join(_sizes(splice, call, suspect.parts[0], len(fact.shapes[0])))
        new = f"{splice.closed(suspect.parts[0])}.expand({sizes})"
        what = "the repeated tensor is a view: expand copies nothing"
    text = splice.replaced([(splice.span(call), new)])
    return (splice.proposal("drop_copy", suspect.function, text, what),)


def _sizes(splice: Splice, call: ast.Call, base: ast.expr, rank: int) -> list[str]:
    """The arguments of expand. Raises: DeclinedError where the text does not show that an axis has length 1."""
    listed = call.args[0].elts if len(call.args) == 1 and isinstance(call.args[0], ast.Tuple | ast.List) else call.args
    viewed = axes_of(base, rank)
    if viewed is None or len(listed) < rank:
        raise DeclinedError("the repeats do not fit its axes")
    own = viewed[1]
    sizes = []
    for position, times in enumerate(listed):
        axis = position - (len(listed) - rank)
        if axis >= 0 and integer(times) == 1:
            sizes.append("-1")
        elif axis < 0 or not own[axis] or _keeps(base, axis, rank):
            sizes.append(splice.code(times))
        else:
            raise DeclinedError("nothing in the text says that the repeated axis has length 1")
    return sizes


def _keeps(base: ast.expr, axis: int, rank: int) -> bool:
    """``x.sum(0, keepdim=True)``: axis 0 has length 1."""
    if not isinstance(base, ast.Call):
        return False
    options = {keyword.arg: keyword.value for keyword in base.keywords}
    keep = options.get("keepdim")
    where = options.get("dim", base.args[-1] if base.args else None)
    kept = isinstance(keep, ast.Constant) and keep.value is True
    axes = [integer(one) for one in (where.elts if isinstance(where, ast.Tuple) else [where])] if where else []
    return kept and any(one is not None and one % rank == axis for one in axes)
