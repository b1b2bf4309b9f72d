"""Errors for what stands in a text but is no part of a formula: each with what to write instead."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Mapping
from typing import Final

from gradwright.errors import UsageError
from gradwright.kernels.formula.functions import CONSTANTS, FUNCTIONS, INSTEAD
from gradwright.kernels.formula.written import Written

_OPERATORS: Final[Mapping[type[ast.AST], tuple[str, str]]] = {
    ast.Mod: ("%", "write x - n * k with the k that is meant"),
    ast.FloorDiv: ("//", "write / : what is rounded has no derivative to speak of"),
    ast.BitAnd: ("&", "write `and`"),
    ast.BitOr: ("|", "write `or`"),
    ast.BitXor: ("^", "write ** for a power, != for numbers that differ"),
    ast.LShift: ("<<", "write x * 2**n"),
    ast.RShift: (">>", "write x / 2**n"),
    ast.MatMult: ("@", "write * : a formula is of single numbers"),
    ast.Invert: ("~", "write `not`"),
    ast.Is: ("is", "write == or another comparison"),
    ast.IsNot: ("is not", "write != or another comparison"),
    ast.In: ("in", "write == with `or`"),
    ast.NotIn: ("not in", "write != with `and`"),
}
_ONE_EACH: Final = "write a formula for each of its values"
_NODES: Final[Mapping[type[ast.AST], tuple[str, str]]] = {
    ast.Attribute: ("an attribute", "write functions by their names alone, as in exp(x), and numbers as inputs"),
    ast.Subscript: ("an index", "give each number an input of its own"),
    ast.Slice: ("a slice", "give each number an input of its own"),
    ast.Lambda: ("a lambda", "write what it computes in its place"),
    ast.NamedExpr: ("an assignment", "write the expression in each place: what is equal is computed once"),
    ast.Tuple: ("a tuple", _ONE_EACH),
    ast.List: ("a list", _ONE_EACH),
    ast.Set: ("a set", _ONE_EACH),
    ast.Dict: ("a dict", _ONE_EACH),
    ast.JoinedStr: ("a string", "write numbers and inputs only"),
    **dict.fromkeys(
        (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp), ("a comprehension", "write its terms out")
    ),
    ast.Starred: ("a star", "write the arguments out"),
}


def refused_node(written: Written, node: ast.expr) -> UsageError:
    thing, do = _NODES.get(type(node), ("this", "write it with numbers, inputs, operators and functions"))
    why = "a formula makes one number of numbers"
    return written.refusal(written.start(node), f"{thing} is no part of a formula", why=why, do=do)


def refused_operator(written: Written, operator: ast.AST, *, left: ast.expr | None, node: ast.expr) -> UsageError:
    """``left``: the operand before it; none before a sign."""
    symbol, do = _OPERATORS[type(operator)]
    place = written.start(node) if left is None else written.after(left, symbol.split()[0])
    why = "there are + - * / ** < <= > >= == != and or not"
    return written.refusal(place, f"`{symbol}` is no operator of formulas", why=why, do=do)


def refused_constant(written: Written, node: ast.Constant) -> UsageError:
    thing = "a complex number" if isinstance(node.value, complex) else f"`{node.value!r}`"
    why = "a formula makes one real number of real numbers"
    do = "write real numbers and inputs only"
    return written.refusal(written.start(node), f"{thing} is no part of a formula", why=why, do=do)


def unknown_function(written: Written, node: ast.expr, name: str) -> UsageError:
    near = difflib.get_close_matches(name, FUNCTIONS, n=3, cutoff=0.6)
    do = "write it with the functions that there are"
    if name in INSTEAD:
        do = f"write {INSTEAD[name]}"
    elif near:
        do = f"did you mean {' or '.join(near)}?"
    why = f"formulas have these functions: {', '.join(FUNCTIONS)}"
    return written.refusal(written.start(node), f"there is no function `{name}`", why=why, do=do)


def not_a_condition(written: Written, node: ast.expr) -> UsageError:
    what = f"`{written.segment(node)}` is a number where a condition is needed"
    why = "which numbers count as true is for the formula to say"
    return written.refusal(written.start(node), what, why=why, do="compare it: > 0, or != 0")


def check_input(written: Written, node: ast.expr | ast.arg, name: str) -> None:
    """An error, where an input can't have this name."""
    why = ""
    if name in FUNCTIONS:
        why = f"`{name}` is a function of formulas"
        do = f"call it, as in {FUNCTIONS[name].signature(name)}, or give the input another name"
    elif name in CONSTANTS:
        why, do = f"`{name}` is a constant of formulas", "give the input another name"
    elif name.startswith("_"):
        why, do = "names that begin with an underscore are Gradwright's own", f"call it `{name.strip('_') or 'x'}`"
    if why:
        raise written.refusal(written.start(node), f"no input can be called `{name}`", why=why, do=do)
