"""Formulas as text. ``read_function`` reads those that are Python functions, by the same walk."""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import Final

from gradwright.errors import UsageError
from gradwright.kernels.formula.expression import constant, number
from gradwright.kernels.formula.formulas import Formula
from gradwright.kernels.formula.functions import CONSTANTS, FUNCTIONS, Function
from gradwright.kernels.formula.python_functions import read_function
from gradwright.kernels.formula.refused import check_input, refused_node, unknown_function
from gradwright.kernels.formula.values import Value, as_number
from gradwright.kernels.formula.walk import Steps, Walk, run
from gradwright.kernels.formula.written import Place, Written

__all__ = ["Formula", "read", "read_function"]

_LONGEST: Final = 100_000  # characters


@lru_cache(maxsize=256)
def read(text: str, *, may_be_constant: bool = False) -> Formula:
    """The formula that a text states.

    Numbers, + - * / **, comparisons (also chained), ``and``, ``or``, ``not``, ``a if condition else b``, and the
    functions of ``functions.FUNCTIONS``: where, exp, log, log1p, expm1, sqrt, trigonometric and hyperbolic ones, erf,
    sigmoid, softplus, abs, sign, min, max, clamp, ... ``pi``, ``inf`` and ``nan`` are constants; every other name is an
    input (``e`` too). A condition that is used as a number is 1 where it holds and 0 elsewhere. What is made of numbers
    alone is computed in float64. NOTE [Never run] in ``walk``.

    ``may_be_constant``: it may have no input.

    Cost: some 10 µs for each operation; none, where the same text was read before.
    Raises: UsageError for all that isn't understood, with the column and what to write instead.

    >>> read("where(e > 0, q*e, (q - 1)*e)").inputs
    ('e', 'q')
    >>> read("x % 2")
    Traceback (most recent call last):
    gradwright.errors.UsageError: this formula can't be read: `%` is no operator of formulas
      where  column 3
             x % 2
               ^
      why    there are + - * / ** < <= > >= == != and or not
      do     write x - n * k with the k that is meant
    """
    if not text.strip():
        raise UsageError('this formula can\'t be read: it is empty\n  do     write one, such as "x * sigmoid(x)"')
    if len(text) > _LONGEST:
        raise UsageError(
            f"this formula can't be read: it is too long\n  what   {len(text):,} characters\n"
            f"  why    a text has at most {_LONGEST:,}\n  do     split it into several formulas"
        )
    written = Written(tuple(f"({text}".split("\n")), ahead=1)
    tree = _parsed(text, written)
    inputs = _inputs(tree)
    output = as_number(run(_Text(written, Steps()).value(tree)))
    if not inputs and not may_be_constant:
        raise UsageError(
            "this formula can't be read: it has no input\n"
            f"  what   {text.strip()}\n  why    it is the same number everywhere\n  do     name an input in it"
        )
    return Formula(inputs, output, text)


class _Text(Walk):
    def name(self, node: ast.Name) -> Value:
        if node.id in CONSTANTS:
            return constant(CONSTANTS[node.id])
        check_input(self.written, node, node.id)
        return number(node.id)

    def attribute(self, node: ast.Attribute) -> Value:
        raise refused_node(self.written, node)

    def callee(self, node: ast.expr) -> Function:
        if not isinstance(node, ast.Name):
            raise refused_node(self.written, node)
        if node.id not in FUNCTIONS:
            raise unknown_function(self.written, node, node.id)
        return FUNCTIONS[node.id]


def _parsed(text: str, written: Written) -> ast.expr:
    try:
        # In brackets, so that it may go over several lines.
        tree = ast.parse(f"({text}\n)", mode="eval").body
    except SyntaxError as error:
        line = min(error.lineno or 1, len(written.lines))
        before = written.lines[line - 1][: max((error.offset or 1) - 1, 0)]
        raise written.refusal(
            Place(line, len(before.encode(errors="replace"))),
            "it is no expression",
            why=f"Python's own parser says: {error.msg}",
            do="mend it here, or just before; words of Python's (lambda, class, in, ...) can't be names of inputs",
        ) from None
    except (RecursionError, MemoryError):
        raise written.refusal(
            Place(1, 1),
            "it is too complex",
            why="it is nested deeper than Python's own parser goes",
            do="split it into several formulas",
        ) from None
    except ValueError as error:  # a null byte, half a surrogate pair
        raise UsageError(
            f"this formula can't be read: {error}\n  what   {text[:80]!r}\n"
            "  why    it holds a character that no text has\n  do     write it anew"
        ) from None
    if tree.col_offset == 0 and tree.lineno == 1 and not isinstance(tree, (ast.Tuple, ast.GeneratorExp)):
        # Only what begins before the text itself: ") + (" closes our bracket.
        why = "one is closed that was never opened"
        raise written.refusal(Place(1, 1), "its brackets don't match", why=why, do="open it, or leave it out")
    return tree


def _inputs(tree: ast.expr) -> tuple[str, ...]:
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    names.sort(key=lambda node: (node.lineno, node.col_offset))
    return tuple(dict.fromkeys(node.id for node in names if node.id not in CONSTANTS and node.id not in FUNCTIONS))
