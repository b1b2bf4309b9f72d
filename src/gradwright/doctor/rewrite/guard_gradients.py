"""A gradient that nobody needs is computed only where ``ctx.needs_input_grad`` says that somebody does."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from gradwright.doctor.rewrite.function_text import FunctionText
from gradwright.doctor.rewrite.source_text import DeclinedError, SourceText
from gradwright.doctor.session.facts import Fact, UnneededGradient
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.proposal import Proposal

LONGEST_LINE = 100


def guard_gradients(finding: Finding, facts: Sequence[Fact], source: SourceText) -> tuple[Proposal, ...]:
    """One candidate for all gradients of a Function that are computed in vain. Raises: DeclinedError."""
    unneeded = [fact for fact in facts if isinstance(fact, UnneededGradient) and fact.id in finding.evidence]
    function = FunctionText(source, finding.location.line)
    returned = _returned(function)
    told = []
    for fact in unneeded:
        for index, name in zip(fact.indices, fact.names, strict=True):
            if index < len(returned):
                _guard(function, returned[index], index, name, returned)
                told.append(name)
    if not told:
        raise DeclinedError("the gradients are not returned one by one")
    return (function.proposal("guard_gradients", f"the gradient of {', '.join(told)} is computed where it is needed"),)


def _returned(function: FunctionText) -> list[ast.expr]:
    """What the backward returns, input by input."""
    returns = [node for node in ast.walk(function.backward) if isinstance(node, ast.Return)]
    if len(returns) != 1 or returns[0] is not function.backward.body[-1] or returns[0].value is None:
        raise DeclinedError("it returns in several places")
    value = returns[0].value
    if isinstance(value, ast.Tuple):
        if any(isinstance(one, ast.Starred) for one in value.elts):
            raise DeclinedError("the gradients are not returned one by one")
        return value.elts
    return [value]


def _guard(function: FunctionText, element: ast.expr, index: int, name: str, returned: Sequence[ast.expr]) -> None:
    wanted = f"{function.ctx(function.backward)}.needs_input_grad[{index}]"
    if isinstance(element, ast.Constant):
        return
    if not isinstance(element, ast.Name):
        _guard_expression(function, element, wanted, f"grad_{name}")
        return
    block = _block_of(function, element)
    splices = function.splices
    (only, *more) = block
    if not more and isinstance(only, ast.Assign) and only.lineno == only.end_lineno:
        text = f"{splices.of(only)} if {wanted} else None"
        if len(function.indent_of(only) + text) <= LONGEST_LINE and not isinstance(only.value, (ast.IfExp, ast.Lambda)):
            end = splices.span(only)[1]
            splices.replace_span(end, end, f" if {wanted} else None")
            return
    indent = function.indent_of(block[0])
    step = "\t" if indent.startswith("\t") else "    "
    start, end = splices.start_of_line(block[0].lineno), splices.start_of_line((block[-1].end_lineno or 0) + 1)
    if any(
        isinstance(node, ast.Constant) and node.end_lineno != node.lineno for one in block for node in ast.walk(one)
    ):
        raise DeclinedError("a text over several lines stands there")
    deeper = "".join(
        step + line if line.strip() else line for line in splices.text[start:end].splitlines(keepends=True)
    )
    splices.replace_span(start, end, f"{indent}{element.id} = None\n{indent}if {wanted}:\n{deeper}")


def _guard_expression(function: FunctionText, element: ast.expr, wanted: str, name: str) -> None:
    """In its place, where the line stays short; else by a statement before the return."""
    splices, line = function.splices, function.splices.lines[element.lineno - 1]
    lone = isinstance(function.splices.parent(element), ast.Return)
    addition = f" if {wanted} else None"
    if element.lineno == element.end_lineno and len(line) + len(addition) <= LONGEST_LINE:
        start, end = splices.span(element)
        if isinstance(element, ast.IfExp):
            splices.replace_span(start, start, "(")
            addition = ")" + addition
        splices.replace_span(end, end, addition)
        return
    if name in function.names(function.backward) or lone:
        raise DeclinedError(f"the name {name} is taken")
    statement = function.statement_of(element)
    function.before(statement, f"{name} = {splices.of(element)}{addition}" if "\n" not in splices.of(element) else "")
    if "\n" in splices.of(element):
        raise DeclinedError("the gradient is written over several lines")
    splices.replace(element, name)


def _block_of(function: FunctionText, element: ast.Name) -> list[ast.stmt]:
    """The neighbouring statements that do nothing but make ``element``. Raises: DeclinedError."""
    body = function.backward.body[:-1]
    making = [number for number, statement in enumerate(body) if element.id in _changed(statement)]
    if not making or any(isinstance(node, (ast.Return, ast.Break)) for one in body for node in ast.walk(one)):
        raise DeclinedError(f"{element.id} is not made in the backward itself")
    first, last = making[0], making[-1]
    while first and _changed(body[first - 1]) and _only_for(function, body, first - 1, last, element):
        first -= 1
    if not all(_only_for(function, body, first, last, element, number) for number in range(first, last + 1)):
        raise DeclinedError(f"what makes {element.id} makes something else as well")
    return body[first : last + 1]


def _only_for(
    function: FunctionText,
    body: Sequence[ast.stmt],
    first: int,
    last: int,
    element: ast.Name,
    number: int | None = None,
) -> bool:
    """Whether what a statement changes is read from ``first`` to ``last`` only, or returned as ``element``."""
    changed = _changed(body[first if number is None else number])
    outside = [*body[:first], *body[last + 1 :]]
    reads = {node.id for one in outside for node in ast.walk(one) if isinstance(node, ast.Name)}
    reads |= {
        node.id for node in ast.walk(function.backward.body[-1]) if isinstance(node, ast.Name) and node is not element
    }
    parameters = {argument.arg for argument in function.backward.args.args}
    return not changed & (reads | parameters)


def _changed(statement: ast.stmt) -> set[str]:
    """Names that a statement binds, or whose objects it may change."""
    found: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, (ast.Subscript, ast.Attribute)) and not isinstance(node.ctx, ast.Load):
            found |= set(_root(node))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_"):
            found |= set(_root(node.func))
        elif isinstance(node, ast.Call) and any(keyword.arg == "out" for keyword in node.keywords):
            found |= {
                inner.id for keyword in node.keywords for inner in ast.walk(keyword) if isinstance(inner, ast.Name)
            }
    return found


def _root(node: ast.expr) -> Iterator[str]:
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id
