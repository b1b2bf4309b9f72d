"""A list that a loop fills is a tensor with one axis more; what is made of the list is made of that tensor."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.known import PAIR
from gradwright.doctor.rewrite.loops.value import Value, kind_of
from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.doctor.source.seen import SeenValue
from gradwright.ground.syntax import dotted

if TYPE_CHECKING:
    from gradwright.doctor.rewrite.loops.lowering import Lowering

_TENSORS = ("tensor", "as_tensor", "FloatTensor", "LongTensor")
CONSUMERS = frozenset({"stack", "cat", "concat", "vstack", "sum", "max", "min", "any", "all", *_TENSORS})


def filled_list(low: Lowering, node: ast.Call) -> Value | None:
    """The list that is the call's first argument, as a tensor: (its own loops, the list, one element's axes)."""
    if node.args and isinstance(node.args[0], ast.Name):
        return low.context.lists.get(node.args[0].id)
    return None


def from_list(low: Lowering, node: ast.Call, value: Value) -> Value:
    """``torch.stack(rows)``, ``torch.tensor(numbers)``, ``sum(rows)`` ... Raises: DeclinedError, for others."""
    full = low.context.frame.module_of(node.func)
    function = full.rsplit(".", 1)[-1]
    if function not in CONSUMERS or not full.startswith(("torch.", "builtins.")):
        raise DeclinedError(f"{ast.unparse(node.func)} of a list is not known to work on a tensor")
    axis = len(value.axes)
    one = value.cell - 1
    if full.startswith("builtins."):
        return _of_builtin(low, function, value, axis, one)
    if function in _TENSORS:
        return _tensor(low, node, value)
    dim = _dim(node, one + (1 if function == "stack" else 0))
    if value.number:
        raise DeclinedError(f"torch.{function} of Python's numbers")
    if function == "stack":
        if dim == 0:
            return _dense(value)
        moved = nodes.method(value.node, "movedim", nodes.constant(axis), nodes.constant(axis + dim))
        return value.with_node(moved)
    if function == "vstack" and one == 1:
        return _dense(value)
    if function == "vstack" or not one:
        raise DeclinedError(f"torch.{function} of single numbers")
    thin = _without_unsqueeze(value.node, one, dim) if function != "vstack" else None
    if thin is not None:  # rows that were given an axis to be joined along: a stack
        if dim:
            thin = nodes.method(thin, "movedim", nodes.constant(axis), nodes.constant(axis + dim))
        return _dense(replace(value, node=thin, cell=one))
    if dim != 0:
        node_ = nodes.method(value.node, "movedim", nodes.constant(axis), nodes.constant(axis + dim))
        joined = nodes.method(node_, "flatten", nodes.constant(axis + dim), nodes.constant(axis + dim + 1))
        return replace(value, node=joined, cell=one)
    joined = nodes.method(value.node, "flatten", nodes.constant(axis), nodes.constant(axis + 1))
    return replace(value, node=joined, cell=one)


def _without_unsqueeze(node: ast.expr, rank: int, dim: int) -> ast.expr | None:
    """``rows`` for ``rows.unsqueeze(-1)``, where that is the axis ``dim`` of each element."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "unsqueeze":
        at = nodes.integer(node.args[0]) if len(node.args) == 1 else None
        return node.func.value if at is not None and at < 0 and at + rank == dim else None
    return None


def _dense(value: Value) -> Value:
    """A copy, where the elements are those of another tensor."""
    return value.with_node(nodes.method(value.node, "clone")) if _is_view(value.node) and not value.axes else value


def _is_view(node: ast.expr) -> bool:
    """Not so what a mask picks, nor one of a pair that torch has just made."""
    if isinstance(node, ast.Subscript):
        return (
            not isinstance(node.slice, ast.Compare | ast.BinOp | ast.UnaryOp) or nodes.integer(node.slice) is not None
        )
    if isinstance(node, ast.Attribute):
        return node.attr not in PAIR
    return isinstance(node, ast.Name)


def _of_builtin(low: Lowering, function: str, value: Value, axis: int, one: int) -> Value:
    dims = [] if not axis and not one else [nodes.constant(axis)]
    if function == "sum":
        if value.boolean and value.number:
            value = replace(value, dtype="int64")
        return replace(value, node=nodes.method(value.node, "sum", *dims), cell=one)
    if function in ("any", "all") and value.boolean and not one:
        return replace(value, node=nodes.method(value.node, function, *dims), cell=0)
    if function in ("max", "min") and not one and kind_of(value.dtype) == 1:
        return replace(value, node=nodes.method(value.node, f"a{function}", *dims), cell=0)
    raise DeclinedError(f"{function} of a list of such elements")


def mean_of(value: Value) -> Value:
    """``sum(rows) / len(rows)``."""
    axis, one = len(value.axes), value.cell - 1
    if not value.floating:
        raise DeclinedError("a mean of integers")
    dims = [] if not axis and not one else [nodes.constant(axis)]
    return replace(value, node=nodes.method(value.node, "mean", *dims), cell=one)


def _tensor(low: Lowering, node: ast.Call, value: Value) -> Value:
    described = low.described(node)
    if described is None or described.tensor is None or value.cell != 1:
        raise DeclinedError("a tensor of a list whose dtype was not seen")
    # Python's floats have forgotten their dtype: the tensor's is the default one, whatever they were read from.
    made = nodes.method(value.node, "detach") if value.live or _may_be_tracked(low, value) else value.node
    if value.dtype != described.tensor.dtype or (value.number and value.floating):
        made = low.cast(made, described.tensor.dtype)
    result = replace(value, node=made, number=False, live=False, dtype=described.tensor.dtype)
    return _dense(result)


def _may_be_tracked(low: Lowering, value: Value) -> bool:
    return low.context.tracked and not value.number and value.floating


def _dim(node: ast.Call, rank: int) -> int:
    given = [keyword.value for keyword in node.keywords if keyword.arg in ("dim", "axis")] or node.args[1:2]
    if not given:
        return 0
    dim = nodes.integer(given[0])
    if dim is None or len(node.keywords) + len(node.args) != 2 or not -rank <= dim < rank:
        raise DeclinedError("the axis to stack along is not what the text shows")
    return dim % rank


def listed_numbers(low: Lowering, node: ast.expr, described: SeenValue) -> Value | None:
    """A list of Python's numbers as a tensor; floats keep all their digits until they meet a tensor's dtype."""
    kinds = {item.type for item in described.items}
    if not kinds or not kinds <= {"int", "float"} or dotted(node) in low.context.written:
        return None
    tensor = nodes.attribute(low.torch, "tensor")
    if "float" not in kinds:
        return Value(nodes.call(tensor, node), (), 1, True, "int64")
    double = nodes.attribute(low.torch, "float64")
    return Value(nodes.call(tensor, node, dtype=double), (), 1, True, "float64")
