"""Calls in a loop's body: functions that do to each element of a tensor what they do to one alone, and conversions."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.cells import CELL_FUNCTIONS, lower_cell_function
from gradwright.doctor.rewrite.loops.clamping import is_overwritten, keeps_slope_at_bound, within
from gradwright.doctor.rewrite.loops.frames import Frame
from gradwright.doctor.rewrite.loops.known import (
    DTYPES,
    ELEMENTWISE,
    FLAT,
    IMPURE,
    INSTEAD,
    MODULES,
    OF_MATH,
    PURE_BUILTINS,
    TO_BOOL,
    WITH_TWO,
)
from gradwright.doctor.rewrite.loops.lists import filled_list, from_list
from gradwright.doctor.rewrite.loops.terms import size_of
from gradwright.doctor.rewrite.loops.value import SMALL_INTEGERS, Value, aligned, kind_of, promoted
from gradwright.doctor.rewrite.source_text import (
    DeclinedError,
)
from gradwright.doctor.source.names import words

if TYPE_CHECKING:
    from gradwright.doctor.rewrite.loops.lowering import Lowering


def is_pure_call(node: ast.Call, frame: Frame) -> bool:
    """Whether a call only computes: of torch, math, a builtin, or a method of a tensor that changes nothing."""
    full = frame.module_of(node.func)
    if full.startswith("builtins."):
        return full.removeprefix("builtins.") in PURE_BUILTINS
    last = full.rsplit(".", 1)[-1]
    if full.startswith("torch."):
        return last not in IMPURE and not last.endswith("_") and last[:1].islower()
    if full:
        return full.startswith("math.")
    if not isinstance(node.func, ast.Attribute):
        return False
    attr = node.func.attr
    known = (
        ELEMENTWISE | CELL_FUNCTIONS | frozenset(DTYPES) | words("size dim numel item detach clone to view reshape t")
    )
    return attr in known


def lower_call(low: Lowering, node: ast.Call) -> Value:
    if any(isinstance(argument, ast.Starred) for argument in node.args) or any(k.arg is None for k in node.keywords):
        raise DeclinedError("starred arguments")
    if (filled := filled_list(low, node)) is not None:
        return from_list(low, node, filled)
    if size_of(node)[0]:
        return low.size(node)
    full = low.context.frame.module_of(node.func)
    function = full.rsplit(".", 1)[-1]
    if full.startswith("builtins."):
        return _builtin(low, node, function)
    if full.startswith("math."):
        return _math(low, node, function)
    if full.startswith("torch."):
        return _of_torch(low, node, function)
    if full:
        raise DeclinedError(f"{full} is not known to work on whole tensors")
    described = low.seen.of(node.func)
    if described is not None and described.type in MODULES and len(node.args) == 1 and not node.keywords:
        return _by_rows(low, node, "linear" if described.type == "Linear" else "")
    if not isinstance(node.func, ast.Attribute):
        raise DeclinedError(f"{ast.unparse(node.func)} is called in every iteration, and may do anything")
    if low.stays_the_same(node.func.value) and not low.stays_the_same(node):
        described = low.seen.of(node.func.value)
        if described is not None and described.tensor is None and described.type not in ("int", "float", "bool"):
            raise DeclinedError(f"{ast.unparse(node.func)} is called in every iteration, and may do anything")
    return _method(low, node, node.func)


# --- functions ---------------------------------------------------------------------------------------------------


def _of_torch(low: Lowering, node: ast.Call, function: str) -> Value:
    if function == "where" and len(node.args) == 3:
        condition = low.expression(node.args[0])
        then, other = low.expression(node.args[1]), low.expression(node.args[2])
        if not condition.boolean:
            raise DeclinedError("torch.where of something that is no comparison")
        then, other = low.together([then, other])
        args = aligned([condition, then, other], low.order)
        result = low.combined(nodes.call(node.func, *args), [condition, then, other], promoted([then, other]))
        return low.settled(node, replace(result, number=False))
    if function in ("tensor", "as_tensor", "scalar_tensor") and len(node.args) == 1:
        return _as_tensor(low, node)
    if function in CELL_FUNCTIONS and node.args:
        return lower_cell_function(low, node, function, None, node.args)
    if function in ("linear", "embedding") and all(low.stays_the_same(one) for one in node.args[1:]):
        return _by_rows(low, node, function)
    if function not in ELEMENTWISE:
        raise DeclinedError(f"torch's {function} is not known to work on whole tensors")
    return low.settled(
        node, _elementwise(low, function, node.args, node.keywords, lambda args, kw: ast.Call(node.func, args, kw))
    )


def _by_rows(low: Lowering, node: ast.Call, function: str) -> Value:
    """``F.linear(row, weight, bias)`` does to rows what it does to one."""
    row = low.expression(node.args[0])
    described = low.described(node)
    if row.number or described is None or described.tensor is None or (function == "linear" and not row.cell):
        raise DeclinedError(f"{function} of something that is no row")
    made = ast.Call(node.func, [row.node, *node.args[1:]], node.keywords)
    return replace(row, node=made, cell=len(described.tensor.shape), dtype=described.tensor.dtype)


def _elementwise(
    low: Lowering,
    function: str,
    arguments: list[ast.expr],
    keywords: list[ast.keyword],
    made: Callable[[list[ast.expr], list[ast.keyword]], ast.expr],
) -> Value:
    values = [low.expression(argument) for argument in arguments]
    named = [low.expression(keyword.value) for keyword in keywords if not _is_flag(keyword.value)]
    if any(value.axes for value in named):
        raise DeclinedError(f"{function} with a keyword that changes in the loop")
    domain = False
    if function in INSTEAD:
        if function != "pow" or not (len(arguments) > 1 and (nodes.number(arguments[1]) or 0) >= 1):
            values[0], domain = low.harmless(values[0], INSTEAD[function])  # type: ignore[arg-type]  # what is harmless there is a number
    elif function in WITH_TWO and len(values) > 1 and nodes.number(arguments[1]) is None:
        values[1], domain = low.harmless(values[1], WITH_TWO[function])
    elif low.careful and function not in FLAT:
        values = [low.harmless(value, 0)[0] for value in values]
    values = low.together(values)
    args = aligned(values, low.order)
    dtype = "bool" if function in TO_BOOL else promoted(values)
    if kind_of(dtype) == 1 and function in INSTEAD and function != "pow":
        dtype = low.context.default_dtype
    result = low.combined(made(args, keywords), values, dtype)
    gradient_free = function in TO_BOOL
    return replace(
        result,
        number=False,
        domain=not gradient_free and (result.domain or domain),
        live=result.live and not gradient_free,
    )


def _is_flag(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and (isinstance(node.value, str | bool) or node.value is None)


def _as_tensor(low: Lowering, node: ast.Call) -> Value:
    """``torch.tensor(number)``: a number becomes a tensor of its own, without a gradient."""
    inner = low.expression(node.args[0])
    if inner.cell or not inner.axes:
        raise DeclinedError("torch.tensor of something that is no number of this iteration")
    described = low.described(node)
    if described is None or described.tensor is None:
        raise DeclinedError("the dtype of a tensor that the loop makes was not seen")
    dtype = described.tensor.dtype
    made = nodes.method(inner.node, "detach") if inner.live else inner.node
    asked = next((keyword.value for keyword in node.keywords if keyword.arg == "dtype"), None)
    if inner.dtype != dtype and asked is not None and low.stays_the_same(asked):
        made = nodes.method(made, "to", asked)
    elif inner.dtype != dtype:
        made = low.cast(made, dtype)
    return replace(inner, node=made, number=False, live=False, dtype=dtype, carriers=frozenset())


def _math(low: Lowering, node: ast.Call, function: str) -> Value:
    twin = OF_MATH.get(function, "")
    if function in ("floor", "ceil") and len(node.args) == 1:
        inner = low.expression(node.args[0])
        whole = nodes.method(inner.node, function) if inner.floating else inner.node
        return replace(inner, node=nodes.method(whole, "long") if inner.floating else whole, dtype="int64", live=False)
    if not twin:
        raise DeclinedError(f"math.{function} has no twin in torch that is known to agree")
    values = [low.as_float(low.expression(argument)) for argument in node.args]
    domain = False
    if twin in INSTEAD:
        values[0], domain = low.harmless(values[0], INSTEAD[twin])  # type: ignore[arg-type]  # what is harmless there is a number
    args = aligned(values, low.order)
    made = nodes.call(nodes.attribute(low.torch, twin), *args)
    if any(not value.axes for value in values[:1]):
        raise DeclinedError(f"math.{function} of what stays the same, and something that does not")
    dtype = "bool" if twin in TO_BOOL else promoted(values)
    result = low.combined(made, values, dtype)
    return replace(result, number=True, domain=result.domain or domain)


# --- builtins ----------------------------------------------------------------------------------------------------


def _builtin(low: Lowering, node: ast.Call, function: str) -> Value:
    if node.keywords or not node.args:
        raise DeclinedError(f"a call of {function} with keywords")
    if function in ("min", "max") and len(node.args) > 1:
        values = [low.expression(argument) for argument in node.args]
        result = values[0]
        for value in values[1:]:
            result = first_wins(low, function, result, value)
        return result
    if len(node.args) != 1:
        raise DeclinedError(f"{function} has no form for whole tensors")
    if function == "sum" and (cell := low.expression(node.args[0]).cell):
        if cell > 1:
            raise DeclinedError("sum of the rows of a matrix")
        return lower_cell_function(low, node, "sum", None, node.args)
    inner = low.exactly(node.args[0]) if function == "int" else low.expression(node.args[0])
    if inner.cell:
        raise DeclinedError(f"{function} of a whole row")
    if function == "abs":
        return inner.with_node(nodes.call(node.func, inner.node))
    if function == "float":
        return low.as_float(_number(low, inner))
    if function == "int":
        return _whole_number(low, inner)
    if function == "bool":
        return replace(low.condition(node.args[0]), number=True)
    if function == "round" and inner.floating:
        made = nodes.method(nodes.call(nodes.attribute(low.torch, "round"), inner.node), "long")
        return replace(inner, node=made, number=True, dtype="int64", live=False)
    raise DeclinedError(f"{function} has no form for whole tensors")


def first_wins(low: Lowering, function: str, left: Value, right: Value) -> Value:
    """Python's ``max(a, b)``: b if b > a else a. Of equal ones the first gets the gradient."""
    bound = nodes.number(right.node)
    plain = bound is not None and (left.axes or left.cell) and not left.boolean
    if plain and not is_overwritten(low.context, left.node) and keeps_slope_at_bound(low.context):
        end = {"max": "min", "min": "max"}[function]
        node = within(left.node, end, right.node)
        return low.combined(node, [left], promoted([left, right]))
    if all(kind_of(value.dtype) == 1 and value.axes for value in (left, right)):
        made = nodes.call(nodes.attribute(low.torch, function + "imum"), *aligned([left, right], low.order))
        return low.combined(made, [left, right], promoted([left, right]))
    left, right = low.together([left, right])
    one, other = aligned([left, right], low.order)
    sign: ast.cmpop = ast.Gt() if function == "max" else ast.Lt()
    condition = low.combined(ast.Compare(other, [sign], [one]), [left, right], "bool")
    return low.where(replace(condition, live=False, domain=False), right, left)


def _number(low: Lowering, value: Value) -> Value:
    """A tensor's value as Python's number: it carries no gradient from here on, and has all digits, and no largest."""
    if value.number:
        return value
    if value.axes and (value.dtype in ("float16", "bfloat16") or (low.exact and value.dtype == "float32")):
        value = replace(value, node=nodes.method(value.node, "double"), dtype="float64", carriers=frozenset())
    elif value.axes and value.dtype in SMALL_INTEGERS:
        value = replace(value, node=nodes.method(value.node, "long"), dtype="int64", carriers=frozenset())
    return replace(value, number=True, live=value.floating and bool(value.axes) and low.context.tracked)


def _whole_number(low: Lowering, value: Value) -> Value:
    value = _number(low, value)
    if kind_of(value.dtype) == 1:
        return value
    return replace(value, node=nodes.method(value.node, "long"), dtype="int64", live=False)


# --- methods -----------------------------------------------------------------------------------------------------


def _method(low: Lowering, node: ast.Call, func: ast.Attribute) -> Value:
    function = func.attr
    if function in CELL_FUNCTIONS and not (function in ELEMENTWISE and not node.args):
        return lower_cell_function(low, node, function, func.value, node.args)
    owner = low.expression(func.value)
    if owner.number:
        raise DeclinedError(f"the method {function} of a number")
    if function in ("dim", "ndimension") and not node.args:
        return low.rank(owner)
    if function in ("item", "tolist") and not node.args and not owner.cell:
        return _number(low, owner)
    if function in ("detach", "clone", "contiguous") and not node.args and not node.keywords:
        return owner if function == "contiguous" else owner.with_node(nodes.method(owner.node, function))
    if function == "squeeze" and not owner.cell and not node.args:
        return owner
    if function in DTYPES and not node.args and not node.keywords:
        made = nodes.method(owner.node, function)
        return replace(owner, node=made, dtype=DTYPES[function], carriers=frozenset())
    if function in ("to", "type", "type_as") and node.args and all(low.stays_the_same(one) for one in node.args):
        described = low.described(node)
        if described is None or described.tensor is None:
            raise DeclinedError("a conversion whose result was not seen")
        return replace(
            owner,
            node=ast.Call(nodes.attribute(owner.node, function), node.args, node.keywords),
            dtype=described.tensor.dtype,
            carriers=frozenset(),
        )
    if function not in ELEMENTWISE:
        raise DeclinedError(f"the method {function} is not known to work on whole tensors")

    def made_of(args: list[ast.expr], keywords: list[ast.keyword]) -> ast.expr:
        return ast.Call(nodes.attribute(args[0], function), args[1:], keywords)

    return low.settled(node, _elementwise(low, function, [func.value, *node.args], node.keywords, made_of))
