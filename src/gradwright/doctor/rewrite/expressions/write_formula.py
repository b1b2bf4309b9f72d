"""A chain of arithmetic becomes a formula beside the class, ``gw.elementwise("...")``, and a call of it."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace

from gradwright.doctor.rewrite.expressions.splice import Splice
from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.doctor.session.proposal import Proposal
from gradwright.doctor.source.expressions.formulas import read_formula
from gradwright.doctor.source.expressions.suspect import Suspect
from gradwright.doctor.source.names import FunctionNode, events, locals_of

LONGEST_FORMULA = 120
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclass(frozen=True)
class Definition:
    """What is written above the code that calls it: ``edits`` of the text, and what these add to the module.

    ``lines``: how many they are.
    """

    edits: tuple[tuple[tuple[int, int], str], ...]
    added: str
    lines: int


def write_formula(splice: Splice, suspect: Suspect) -> Proposal:
    """One candidate. Raises: DeclinedError."""
    assert isinstance(suspect.node, ast.expr)
    formula = read_formula(suspect.node, splice.origins)
    if formula is None or len(formula.text) > LONGEST_FORMULA:
        raise DeclinedError("it is no formula, or too long a one to read")
    outermost = outermost_of(splice, suspect.function)
    owner = next((n for n in ast.walk(outermost) if isinstance(n, ast.ClassDef) and suspect.function in n.body), None)
    if owner is None:
        raise DeclinedError("it stands in no Function")
    name = splice.fresh_name(name_in(owner, suspect.function))
    definition = define(splice, suspect.function, name, f'"{formula.text}"')
    arguments = ", ".join(splice.code(value) for _, value in formula.inputs)
    call = (splice.with_own_parentheses(suspect.node), f"{name}({arguments})")
    what = f"{len(formula.steps)} operations are one pass over memory"
    proposal = splice.proposal("fuse_temporaries", suspect.function, splice.replaced([call, *definition.edits]), what)
    lines = (proposal.lines[0] + definition.lines, proposal.lines[1])
    return replace(proposal, lines=lines, added=definition.added)


def outermost_of(splice: Splice, function: ast.AST) -> ast.stmt:
    """The statement of the module that a function stands in."""
    return next(one for one in splice.tree.body if any(node is function for node in ast.walk(one)))


def name_in(owner: ast.ClassDef, function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """What to call a formula of a method: after both."""
    return f"_{_HUMP.sub('_', owner.name).lower()}_{function.name.strip('_')}"


def define(splice: Splice, function: FunctionNode, name: str, given: str) -> Definition:
    """``name`` as what ``elementwise`` makes of what it is given, above what the function stands in.

    Raises: DeclinedError.
    """
    outermost = outermost_of(splice, function)
    module, imported = library(splice, function)
    newline = splice.newline(outermost)
    definition = f"{name} = {module}.elementwise({given})"
    if len(definition) > LONGEST_FORMULA:
        definition = f"{name} = {module}.elementwise({newline}    {given}{newline})"
    at = _above(splice, outermost)
    line = after_imports(splice, at) if imported else 0
    written = f"{definition}{newline}{newline}{newline}"
    edits = [((at, at), written)]
    if imported and line == at:  # nothing stands between
        edits = [((at, at), f"{imported}{newline}{newline}{newline}{written}")]
    elif imported:
        edits.append(((line, line), imported + newline))
    added = "\n".join([imported, definition]).lstrip() + "\n"
    return Definition(tuple(edits), added, sum(text.count(newline) for _, text in edits))


def library(splice: Splice, function: FunctionNode) -> tuple[str, str]:
    """What the file calls Gradwright, and the import that it lacks."""
    bound = {one.name for one in events(splice.tree.body, into_functions=False) if one.kind == "bind"}
    bound |= set(splice.origins.names) | locals_of(function)
    for node in splice.tree.body:
        for alias in node.names if isinstance(node, ast.Import) else ():
            if alias.name == "gradwright":
                return alias.asname or alias.name, ""
    if "gw" in bound:
        raise DeclinedError("the name gw is taken in the file")
    return "gw", "import gradwright as gw"


def _above(splice: Splice, statement: ast.stmt) -> int:
    """Where the statement begins, with its decorators and the comments right above them."""
    first = min([statement.lineno, *(one.lineno for one in getattr(statement, "decorator_list", ()))])
    while first > 1 and splice.line(first - 1).startswith("#"):
        first -= 1
    return splice.offset(first, 0)


def after_imports(splice: Splice, before: int) -> int:
    """Behind the last of the imports that the module begins with. Raises: DeclinedError, if there is none."""
    last = 0
    for statement in splice.tree.body:
        text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if isinstance(statement, ast.Import | ast.ImportFrom):
            last = splice.line_span(statement)[1]
        elif not text:
            break
    if not 0 < last <= before:
        raise DeclinedError("no import stands above it")
    return last
