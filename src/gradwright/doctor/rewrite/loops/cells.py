"""Operations on what one iteration holds when that is a row or a matrix: reductions and products over its own axes.

Axes of a cell are counted from the last one, so that those of the loops may stand in front.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.convolution import convolved
from gradwright.doctor.rewrite.loops.value import Value, aligned, joined_axes, kind_of, promoted
from gradwright.doctor.rewrite.source_text import (
    DeclinedError,
)
from gradwright.doctor.source.names import words

if TYPE_CHECKING:
    from gradwright.doctor.rewrite.loops.lowering import Lowering

# Over all axes of the cell, or over ``dim``.
REDUCTIONS = words("sum mean prod amax amin max min argmax argmin all any std var norm logsumexp nansum count_nonzero")
# Along ``dim``: as many elements come out.
ALONG = words("softmax log_softmax softmin cumsum cumprod normalize flip")
PRODUCTS = words("dot vdot inner outer ger matmul mm mv bmm")
SHAPING = words("view reshape flatten ravel unsqueeze t transpose")
CELL_FUNCTIONS = REDUCTIONS | ALONG | PRODUCTS | SHAPING
_AXES = {"flip": "dims"}  # where the axis is not called dim
_INTEGERS = words("argmax argmin count_nonzero")
_ONE_AXIS = words("prod max min argmax argmin all any")


def lower_cell_function(
    low: Lowering, node: ast.Call, function: str, owner: ast.expr | None, arguments: Sequence[ast.expr]
) -> Value:
    """``owner.function(arguments)``, or ``function(arguments)`` where ``owner`` is None."""
    given = [*([owner] if owner is not None else []), *arguments]
    if function in PRODUCTS and len(given) == 2 and not node.keywords:
        left, right = low.expression(given[0]), low.expression(given[1])
        if function in ("outer", "ger"):
            return _outer(low, left, right)
        return matmul(low, left, right)
    if function in ("max", "min") and len(given) == 2 and nodes.integer(given[1]) is None:
        values = low.together([low.expression(given[0]), low.expression(given[1])])
        made = nodes.call(nodes.attribute(low.torch, function + "imum"), *aligned(values, low.order))
        return replace(low.combined(made, values, promoted(values)), number=False)
    if function == "sum" and len(given) == 1 and not node.keywords and (product := _summed_product(low, given[0])):
        return product
    value = low.expression(given[0])
    if value.number:
        raise DeclinedError(f"{function} of a number")
    if function in SHAPING:
        return _shaped(node, function, value, given[1:])
    if not value.cell:
        return _of_one(low, function, value, given[1:], node)
    dim, rest, keywords = _dim(node, given[1:])
    if function in ALONG:
        if dim is None or (rest and function == "flip"):
            raise DeclinedError(f"{function} without its axis, or along several")
        at = from_the_end(dim, value.cell)
        if function == "flip":
            keywords, at = [], ast.List([at], ast.Load()) if not isinstance(at, ast.Tuple) else at
        called = made_call(node, owner, function, value.node, [at, *rest], keywords, _AXES.get(function, "dim"), low)
        return low.settled(node, value.with_node(called))
    return _reduced(low, node, function, owner, value, dim, rest, keywords)


def _summed_product(low: Lowering, node: ast.expr) -> Value | None:
    """``(a * b).sum()`` of cells that run over different loops: multiplying first would make something larger."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return None
    left, right = low.expression(node.left), low.expression(node.right)
    cell, axes = left.cell, joined_axes([left, right], low.order)
    if not cell or right.cell != cell or left.dtype != right.dtype or not left.floating or left.number or right.number:
        return None
    if (convolution := convolved(low, [left, right], ())) is not None:
        return convolution
    if not left.axes or not right.axes or axes in (left.axes, right.axes):
        return None
    letters = "xyzuvw"[:cell]
    return low.combined(einsum(low, [left, right], [letters, letters], axes, ""), [left, right], left.dtype, cell=0)


def _reduced(
    low: Lowering,
    node: ast.Call,
    function: str,
    owner: ast.expr | None,
    value: Value,
    dim: ast.expr | None,
    rest: list[ast.expr],
    keywords: list[ast.keyword],
) -> Value:
    if function in ("max", "min") and dim is not None:
        raise DeclinedError(f"{function} along an axis gives two tensors")
    keeps = any(k.arg == "keepdim" and not (isinstance(k.value, ast.Constant) and not k.value.value) for k in keywords)
    if function == "norm" and rest and "linalg" in ast.unparse(node.func):
        raise DeclinedError("a norm whose order has another name there")
    if dim is None and function == "norm" and rest:
        keywords = [ast.keyword("p", rest[0]), *keywords]
        rest = []
    elif rest:
        raise DeclinedError(f"{function} with unusual arguments")
    if dim is None:
        if value.cell > 1 and function in _ONE_AXIS - {"max", "min"}:
            value = replace(value, node=nodes.method(value.node, "flatten", nodes.constant(-value.cell)), cell=1)
        last: list[ast.expr] = [nodes.constant(axis) for axis in range(-value.cell, 0)]
        at = last[0] if len(last) == 1 else ast.Tuple(last, ast.Load())
        cell = 0
    else:
        at = from_the_end(dim, value.cell)
        gone = len(at.elts) if isinstance(at, ast.Tuple) else 1
        cell = value.cell - (0 if keeps else gone)
    if function in ("max", "min"):
        function = "a" + function  # max over all of it shares the gradient among equal ones, as amax does
    domain = function in ("norm", "std", "var", "prod")
    keyword = "dim" if function == "norm" else ""
    made = made_call(node, owner, function, value.node, [at], keywords, keyword, low)
    described = low.described(node)
    dtype = value.dtype
    if function in _INTEGERS or (function in ("sum", "prod") and kind_of(dtype) < 2):
        dtype = "int64"
    elif function in ("all", "any"):
        dtype = "bool" if dtype != "uint8" else dtype
    if described is not None and described.tensor is not None:
        dtype = described.tensor.dtype
    guarded = domain and bool(low.guards) and function in ("std", "var")
    return replace(value, node=made, cell=cell, dtype=dtype, domain=value.domain or guarded)


def _of_one(low: Lowering, function: str, value: Value, rest: Sequence[ast.expr], node: ast.Call) -> Value:
    """A reduction of one element is the element."""
    if function in ("sum", "mean", "max", "min", "amax", "amin", "prod") and not rest and not node.keywords:
        described = low.described(node)
        if described is not None and described.tensor is not None and described.tensor.dtype != value.dtype:
            return replace(value, node=low.cast(value.node, described.tensor.dtype), dtype=described.tensor.dtype)
        return value
    raise DeclinedError(f"{function} of a single element")


def made_call(
    node: ast.Call,
    owner: ast.expr | None,
    function: str,
    value: ast.expr,
    args: list[ast.expr],
    keywords: list[ast.keyword],
    keyword: str,
    low: Lowering,
) -> ast.expr:
    named = [*([ast.keyword(keyword, args[0])] if keyword else []), *keywords]
    args = args[1:] if keyword else args
    if owner is not None:
        return ast.Call(nodes.attribute(value, function), args, named)
    called = node.func
    if isinstance(called, ast.Attribute):
        called = nodes.attribute(called.value, function)
    if low.context.frame.module_of(node.func).startswith("builtins."):
        return ast.Call(nodes.attribute(value, function), args, named)
    return ast.Call(called, [value, *args], named)


def _dim(node: ast.Call, rest: Sequence[ast.expr]) -> tuple[ast.expr | None, list[ast.expr], list[ast.keyword]]:
    """The axis (of the cell), what else was given, and the keywords without the axis."""
    named = next((keyword.value for keyword in node.keywords if keyword.arg in ("dim", "axis")), None)
    keywords = [keyword for keyword in node.keywords if keyword.arg not in ("dim", "axis")]
    if named is not None and isinstance(named, ast.Constant) and named.value is None:
        named = None
    if named is not None:
        return named, list(rest), keywords
    is_norm = isinstance(node.func, ast.Attribute) and node.func.attr in ("norm", "normalize")
    if rest and not is_norm:
        return rest[0], list(rest[1:]), keywords
    if is_norm and isinstance(node.func, ast.Attribute) and node.func.attr == "normalize":
        return nodes.constant(1), list(rest), keywords
    return None, list(rest), keywords


def from_the_end(dim: ast.expr, cell: int) -> ast.expr:
    if isinstance(dim, ast.Tuple | ast.List):
        return ast.Tuple([from_the_end(one, cell) for one in dim.elts], ast.Load())
    value = nodes.integer(dim)
    if value is None or not -cell <= value < cell:
        raise DeclinedError("an axis that the text does not show")
    return nodes.constant(value if value < 0 else value - cell)


def _shaped(node: ast.Call, function: str, value: Value, rest: Sequence[ast.expr]) -> Value:
    if node.keywords:
        raise DeclinedError(f"{function} with keywords")
    minus_one = len(rest) == 1 and nodes.integer(rest[0]) == -1
    if (function in ("flatten", "ravel") and not rest) or (function in ("view", "reshape") and minus_one):
        if value.cell == 1:
            return value
        if value.cell == 0:
            return replace(value, node=nodes.method(value.node, "unsqueeze", nodes.constant(-1)), cell=1)
        return replace(value, node=nodes.method(value.node, "flatten", nodes.constant(-value.cell)), cell=1)
    if function == "unsqueeze" and len(rest) == 1 and (axis := nodes.integer(rest[0])) is not None:
        at = axis if axis < 0 else axis - value.cell - 1
        return replace(value, node=nodes.method(value.node, "unsqueeze", nodes.constant(at)), cell=value.cell + 1)
    if function == "t" and value.cell <= 2 and not rest:
        return value if value.cell < 2 else value.with_node(nodes.attribute(value.node, "mT"))
    if function == "transpose" and len(rest) == 2:
        ends = [from_the_end(one, value.cell) for one in rest]
        return value.with_node(nodes.method(value.node, "transpose", *ends))
    raise DeclinedError(f"{function} is not known to work on whole tensors")


# --- products of rows and matrices -----------------------------------------------------------------------------------


def matmul(low: Lowering, left: Value, right: Value) -> Value:
    """``left @ right``, for each iteration. Raises: DeclinedError."""
    if left.number or right.number or not left.cell or not right.cell:
        raise DeclinedError("a product of matrices with something that is none")
    if left.dtype != right.dtype:
        raise DeclinedError("a product of matrices of two dtypes")
    cell = (
        max(left.cell - 1, 0) + max(right.cell - 1, 0)
        if min(left.cell, right.cell) == 1
        else max(left.cell, right.cell)
    )
    if min(left.cell, right.cell) == 1:
        cell = left.cell + right.cell - 2
    node = _product(low, left, right)
    return low.combined(node, [left, right], left.dtype, cell=cell)


def _product(low: Lowering, left: Value, right: Value) -> ast.expr:
    if max(left.cell, right.cell) > 2:
        raise DeclinedError("a product of stacks of matrices")
    if not left.axes and not right.axes:
        return ast.BinOp(left.node, ast.MatMult(), right.node)
    if left.cell == 1 and right.cell == 1:
        return _dots(low, left, right)
    if not right.axes and (right.cell == 2 or len(left.axes) >= 1) and (left.cell == 1 or right.cell == 2):
        return ast.BinOp(left.node, ast.MatMult(), right.node)  # rows times one matrix
    if not right.axes and left.cell == 2:
        return ast.BinOp(left.node, ast.MatMult(), right.node)  # matrices times one column
    if not left.axes and left.cell == 2 and right.cell == 1:
        return ast.BinOp(right.node, ast.MatMult(), nodes.attribute(left.node, "T"))  # one matrix times rows
    if left.cell == 2 and right.cell == 2:
        one, other = aligned([left, right], low.order)
        return ast.BinOp(one, ast.MatMult(), other)
    axes = joined_axes([left, right], low.order)
    if left.cell == 1:
        return einsum(low, [left, right], ["x", "xy"], axes, "y")
    return einsum(low, [left, right], ["xy", "y"], axes, "x")


def _dots(low: Lowering, left: Value, right: Value) -> ast.expr:
    if not right.axes or not left.axes:
        one, other = (left, right) if left.axes else (right, left)
        return ast.BinOp(one.node, ast.MatMult(), other.node)
    if not set(left.axes) & set(right.axes) and len(left.axes) == 1 and len(right.axes) == 1:
        first, second = (
            (left, right) if low.order.index(left.axes[0]) < low.order.index(right.axes[0]) else (right, left)
        )
        return ast.BinOp(first.node, ast.MatMult(), nodes.attribute(second.node, "T"))
    if left.axes == right.axes:
        return nodes.method(ast.BinOp(left.node, ast.Mult(), right.node), "sum", nodes.constant(-1))
    return einsum(low, [left, right], ["x", "x"], joined_axes([left, right], low.order), "")


def einsum(low: Lowering, values: Sequence[Value], cells: Sequence[str], axes: Sequence[object], out: str) -> ast.expr:
    """``torch.einsum``; loops get letters from i on, ``cells`` are those of each value's own axes."""
    letter = {loop: "ijklmnop"[index] for index, loop in enumerate(low.order)}
    inputs = ["".join(letter[loop] for loop in value.axes) + cell for value, cell in zip(values, cells, strict=True)]
    result = "".join(letter[loop] for loop in low.order if loop in axes) + out
    formula = ast.Constant(f"{','.join(inputs)}->{result}")
    return nodes.call(nodes.attribute(low.torch, "einsum"), formula, *(value.node for value in values))


def _outer(low: Lowering, left: Value, right: Value) -> Value:
    if left.cell != 1 or right.cell != 1:
        raise DeclinedError("an outer product of something that is no row")
    column = replace(left, node=nodes.method(left.node, "unsqueeze", nodes.constant(-1)), cell=2)
    row = replace(right, node=nodes.method(right.node, "unsqueeze", nodes.constant(-2)), cell=2)
    if not right.axes:
        row = replace(right, cell=1)
    values = [column, row]
    one, other = aligned(values, low.order) if row.axes else (column.node, row.node)
    return low.combined(ast.BinOp(one, ast.Mult(), other), values, promoted(values), cell=2)
