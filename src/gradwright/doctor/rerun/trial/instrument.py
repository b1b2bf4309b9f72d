"""The new text as code that hands the changed expression, with the values of its leaves, to a hook."""

from __future__ import annotations

import ast
import builtins
import copy
from types import CodeType

from gradwright.doctor.rerun.trial.request import TrialRequest
from gradwright.doctor.source.expressions.leaves import Opened, UnfitError, leaves, may_do_anything
from gradwright.doctor.source.files import Columns
from gradwright.doctor.source.statements import Origins

HOOK = "__gradwright_twin__"


def instrumented(request: TrialRequest) -> tuple[CodeType, tuple[int, int]]:
    """The code, and the first and last line of the changed expression.

    Raises: UnfitError where the expression can't be handed over.
    """
    tree = ast.parse(request.text.removeprefix("\ufeff"))
    origins = Origins(tree)
    node = _at(tree, request)
    before, after = (ast.parse(f"({text})", mode="eval").body for text in (request.before, request.after))
    own = [*leaves(node, origins)]
    found = {ast.dump(one): one for one in [*own, *leaves(before, origins), *leaves(after, origins)]}
    mine = [ast.dump(one) for one in own]
    for key, leaf in found.items():
        if may_do_anything(leaf) and mine.count(key) != 1:
            raise UnfitError(f"`{ast.unparse(leaf)[:60]}` would not be called once")
    names = {key: f"leaf_{number}" for number, key in enumerate(found)}
    lines = node.lineno, node.end_lineno or node.lineno
    handed = [ast.parse(ast.unparse(leaf), mode="eval").body if leaf not in own else leaf for leaf in found.values()]
    computed = [_function(Opened(names).visit(_copy(one)), [*names.values()]) for one in (node, before, after)]
    call = ast.Call(ast.Name(HOOK, ast.Load()), [*computed, *handed], [])
    changed = _Put(node, ast.copy_location(call, node)).visit(tree)
    assert isinstance(changed, ast.Module)
    return compile(ast.fix_missing_locations(changed), request.path, "exec", dont_inherit=True), lines


def offer(hook: object) -> None:
    """Whatever module the code runs in, it finds the hook."""
    setattr(builtins, HOOK, hook)


def _at(tree: ast.Module, request: TrialRequest) -> ast.expr:
    """The expression with these characters, its own parentheses apart."""
    text = request.text.removeprefix("\ufeff")
    shift = len(request.text) - len(text)
    first, last = request.span[0] - shift, request.span[1] - shift
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    columns = Columns(text)
    for node in ast.walk(tree):
        if not isinstance(node, ast.expr):
            continue
        span = columns.span(node)
        begins, ends = starts[span.line - 1] + span.column - 1, starts[span.end_line - 1] + span.end_column - 1
        if first <= begins and ends <= last and not (text[first:begins] + text[ends:last]).strip("() \t\n"):
            return node
    raise UnfitError("the changed expression is not found in the new text")


def _copy(node: ast.expr) -> ast.expr:
    """With positions; the tree itself stays whole."""
    return copy.deepcopy(node)


def _function(body: ast.AST, names: list[str]) -> ast.Lambda:
    assert isinstance(body, ast.expr)
    arguments = ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])
    return ast.copy_location(ast.Lambda(arguments, body), body)


class _Put(ast.NodeTransformer):
    def __init__(self, old: ast.expr, new: ast.expr) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        if node is self._old:
            return self._new
        visited: ast.AST = super().visit(node)
        return visited
