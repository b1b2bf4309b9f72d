"""A loss that is written out becomes one call of the library's: its body, but for the docstring."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from gradwright.doctor.rewrite.expressions.splice import Splice
from gradwright.doctor.rewrite.expressions.write_formula import after_imports, library, outermost_of
from gradwright.doctor.rewrite.source_text import DeclinedError, SourceText
from gradwright.doctor.session.facts import Fact, KnownLoss
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.proposal import Proposal

_COMPUTING = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.If, ast.For, ast.Pass)


def call_known_loss(finding: Finding, facts: Sequence[Fact], source: SourceText) -> tuple[Proposal, ...]:
    """The call as it gives NaN for an empty batch, as a mean of torch's does, then as it gives 0.

    Raises: DeclinedError.
    """
    known = next((fact for fact in facts if isinstance(fact, KnownLoss)), None)
    splice = Splice(source)
    function = _function_at(splice, finding)
    if known is None or function is None:
        raise DeclinedError("the text is not what was measured")
    body = _after_docstring(function)
    _require_only_computing(body)
    return tuple(
        _proposal(splice, function, body, known.loss, call)
        for call in (f'{known.call.removesuffix(")")}, empty="nan")', known.call)
    )


def _proposal(splice: Splice, function: ast.FunctionDef, body: Sequence[ast.stmt], loss: str, call: str) -> Proposal:
    module, imported = library(splice, function)
    start, end = splice.line_span(body[0])[0], splice.line_span(body[-1])[1]
    newline = splice.newline(body[0])
    edits = [((start, end), f"{splice.indent(body[0])}return {module}.losses.{call}{newline}")]
    if imported:
        at = after_imports(splice, splice.offset(outermost_of(splice, function).lineno, 0))
        edits.append(((at, at), imported + newline))
    what = f"it is {loss}, and calls the library's"
    proposal = splice.proposal("call_known_loss", function, splice.replaced(edits), what)
    if not imported:
        return proposal
    return replace(proposal, lines=(proposal.lines[0] + 1, proposal.lines[1]), added=imported + "\n")


def _function_at(splice: Splice, finding: Finding) -> ast.FunctionDef | None:
    for node in ast.walk(splice.tree):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(mark.lineno for mark in node.decorator_list)])
            if finding.location.line in (first, node.lineno):
                return node
    return None


def _after_docstring(function: ast.FunctionDef) -> list[ast.stmt]:
    first = function.body[0]
    said = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    body = function.body[said:]
    if not body:
        raise DeclinedError("it has no body")
    return body


def _require_only_computing(body: Sequence[ast.stmt]) -> None:
    """Raises: DeclinedError where something else happens than that local names are bound and a value is returned."""
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.stmt) and not isinstance(node, _COMPUTING):
                raise DeclinedError("it does more than compute its result")
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                raise DeclinedError(f"it writes into {ast.unparse(node)}")
            if isinstance(node, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom):
                raise DeclinedError("it does more than compute its result")
