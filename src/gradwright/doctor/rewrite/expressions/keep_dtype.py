"""``x * weights`` of a float64 constant: the constant takes the dtype of what it meets."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gradwright.doctor.rewrite.expressions.splice import Splice
from gradwright.doctor.rewrite.source_text import DeclinedError, SourceText
from gradwright.doctor.session.facts import CostlyExpression, Fact
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.proposal import Proposal
from gradwright.doctor.source.expressions.promoted import MAKERS
from gradwright.doctor.source.expressions.suspect import Suspect, called, is_torch_function, own_nodes


def keep_dtype(finding: Finding, facts: Sequence[Fact], source: SourceText) -> tuple[Proposal, ...]:
    """One candidate. Raises: DeclinedError."""
    splice = Splice(source)
    suspect = splice.suspect("promoted", finding)
    fact = next((fact for fact in facts if isinstance(fact, CostlyExpression)), None)
    if fact is None or fact.wide_part is None:
        raise DeclinedError("which operand is float64 is not known")
    wide, other = suspect.parts[fact.wide_part], suspect.parts[1 - fact.wide_part]
    if not isinstance(other, ast.Name):
        raise DeclinedError("what the constant meets has no name")
    maker = _maker(splice, suspect, wide)
    dtype = next((one.value for one in maker.keywords if one.arg == "dtype"), None) if maker is not None else None
    if dtype is not None and maker is not None and _is_bound_before(suspect, other.id, maker):
        edit = splice.span(dtype), f"{other.id}.dtype"
    else:
        edit = splice.span(wide), f"{splice.closed(wide)}.to({other.id}.dtype)"
    text = splice.replaced([edit])
    what = f"the constant has the dtype of `{other.id}`, so that nothing becomes float64"
    return (splice.proposal("keep_dtype", suspect.function, text, what),)


def _maker(splice: Splice, suspect: Suspect, wide: ast.expr) -> ast.Call | None:
    """The call that makes the constant, on the spot or bound once to a name that is read once."""
    value: ast.expr = wide
    if isinstance(wide, ast.Name):
        mine = [one for one in own_nodes(suspect.function) if isinstance(one, ast.Name) and one.id == wide.id]
        made = [
            one.value
            for one in suspect.function.body
            if isinstance(one, ast.Assign) and any(target in mine for target in one.targets)
        ]
        if len(mine) != 2 or len(made) != 1:
            return None
        value = made[0]
    known = isinstance(value, ast.Call) and called(value, splice.origins) in MAKERS
    return value if isinstance(value, ast.Call) and known and is_torch_function(value, splice.origins) else None


def _is_bound_before(suspect: Suspect, name: str, maker: ast.Call) -> bool:
    """Whether the name stands for the same tensor where the constant is made as where it is used."""
    bound = [
        node
        for node in own_nodes(suspect.function)
        if isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)
    ]
    return all(node.lineno < maker.lineno for node in bound)
