"""Arguments of a call of one of ``functions.FUNCTIONS``, matched with its parameters."""

from __future__ import annotations

import ast

from gradwright.kernels.formula.functions import Function
from gradwright.kernels.formula.refused import refused_node
from gradwright.kernels.formula.written import Written


def check_arguments(written: Written, node: ast.Call, function: Function) -> None:
    """An error, unless the function can be called like this."""
    name = written.segment(node.func)
    why = f"it is {function.signature(name.rpartition('.')[2])}"
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            raise refused_node(written, argument)
    given = set(function.parameters[: len(node.args)])
    for keyword in node.keywords:
        place = written.start(keyword)
        if keyword.arg is None:
            raise written.refusal(place, "a star is no part of a formula", why=why, do="write the arguments out")
        if keyword.arg not in function.optional:
            what = f"`{name}` has no keyword `{keyword.arg}`"
            raise written.refusal(place, what, why=why, do="give the arguments in that order, without names")
        if keyword.arg in given:
            what = f"`{name}` gets two values for `{keyword.arg}`"
            raise written.refusal(place, what, why=why, do="give it once")
        given.add(keyword.arg)
    count = len(node.args) + len(node.keywords)
    most = count if function.many else len(function.parameters)
    if not node.args or not function.least <= count <= most:
        what = f"`{name}` got {count} argument{'s' * (count != 1)}"
        raise written.refusal(written.start(node), what, why=why, do=_wanted(function))


def _wanted(function: Function) -> str:
    if function.optional:
        return f"give it {function.parameters[0]}, and {' or '.join(function.parameters[1:])} or both"
    return f"give it {function.least}{' or more' * function.many}"
