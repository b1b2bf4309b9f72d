"""A list that a loop fills is a tensor with one axis more; what is made of the list is made of that tensor."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.known import PAIR
from gradwright.doctor.rewrite.loops.layout import may_be_turned
from gradwright.doctor.rewrite.loops.value import Value, kind_of
from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.doctor.source.names import words
from gradwright.doctor.source.seen import SeenValue
from gradwright.ground.syntax import dotted

if TYPE_CHECKING:
    from gradwright.doctor.rewrite.loops.lowering import Lowering

_TENSORS = ("tensor", "as_tensor", "FloatTensor", "LongTensor")
# Methods that may give a view.
_SHOWS = words("flatten unflatten unsqueeze squeeze view reshape movedim permute transpose t expand detach to")
_SHOWS |= words("contiguous unfold narrow diagonal")
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
        return tensor_of(low, node, value)
    dim = _dim(node, one + (1 if function == "stack" else 0))
    if value.number:
        raise DeclinedError(f"torch.{function} of Python's numbers")
    if function == "stack":
        if dim == 0:
            return dense(value, low.torch)
        return _moved(value, axis, axis + dim, low.torch)
    if function == "vstack" and one == 1:
        return dense(value, low.torch)
    if function == "vstack" or not one:
        raise DeclinedError(f"torch.{function} of single numbers")
    return joined(value, dim, low.torch)


def _moved(value: Value, axis: int, to: int, torch: ast.expr) -> Value:
    """With an axis elsewhere, in dense memory of its own: whoever gets it may ask for a view that needs that."""
    before = _before_transposed(value.node, axis, to)
    if before is not None:
        return dense(value.with_node(before), torch)
    moved = nodes.method(value.node, "movedim", nodes.constant(axis), nodes.constant(to))
    return dense(value.with_node(moved), torch)


def _before_transposed(node: ast.expr, axis: int, to: int) -> ast.expr | None:
    """``x`` for ``x.transpose(0, 1)``, where the first axis becomes the second one again."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "transpose":
        return None
    back = to == axis + 1 and [nodes.integer(one) for one in node.args] == [axis, to]
    return node.func.value if back else None


def depends_on_length(function: str, node: ast.Call, value: Value) -> bool:
    """``torch.tensor(numbers)`` of integers: of none at all it is a tensor of floats."""
    asked = any(keyword.arg == "dtype" for keyword in node.keywords)
    return function in ("torch.tensor", "torch.as_tensor") and value.number and not value.floating and not asked


def joined(value: Value, dim: int, torch: ast.expr) -> Value:
    """The elements of a list, put behind one another along their axis ``dim``."""
    axis, one = len(value.axes), value.cell - 1
    thin = _without_unsqueeze(value.node, one, dim) if not axis or isinstance(value.node, ast.Call) else None
    if thin is not None:  # rows that were given an axis to be joined along: a stack
        rows = replace(value, node=thin, cell=one)
        return _moved(rows, axis, axis + dim, torch) if dim else dense(rows, torch)
    node = value.node
    if dim:
        node = nodes.method(node, "movedim", nodes.constant(axis), nodes.constant(axis + dim))
    flat = nodes.method(node, "flatten", nodes.constant(axis + dim), nodes.constant(axis + dim + 1))
    return replace(value, node=flat, cell=one)


def _without_unsqueeze(node: ast.expr, rank: int, dim: int) -> ast.expr | None:
    """``rows`` for ``rows.unsqueeze(-1)``, ``rows[:, None]``, where that is the axis ``dim`` of each element."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "unsqueeze":
        at = nodes.integer(node.args[0]) if len(node.args) == 1 else None
        return node.func.value if at is not None and at < 0 and at + rank == dim else None
    if isinstance(node, ast.BinOp):
        left, right = (_without_unsqueeze(side, rank, dim) for side in (node.left, node.right))
        if left is not None and nodes.number(node.right) is not None:
            return ast.BinOp(left, node.op, node.right)
        swapped = right is not None and nodes.number(node.left) is not None
        return ast.BinOp(node.left, node.op, right) if swapped and right is not None else None
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) and dim == 0:
        rows, new, *rest = node.slice.elts
        if isinstance(rows, ast.Slice) and nodes.is_none(new) and all(isinstance(one, ast.Slice) for one in rest):
            return nodes.subscript(node.value, [rows, *rest])
    return None


def dense(value: Value, torch: ast.expr) -> Value:
    """A copy, where the elements are those of another tensor: one element after the other, as a list is joined."""
    if value.axes:
        return value
    if not shows_another(value.node):
        turned = value.cell > 1 and may_be_turned(value.node)
        return value.with_node(nodes.method(value.node, "contiguous")) if turned else value
    if isinstance(value.node, ast.Subscript | ast.Name):
        return value.with_node(nodes.method(value.node, "clone"))
    # A clone of x.T would lie as it does, and could not be viewed flat.
    dense_format = nodes.attribute(torch, "contiguous_format")
    return value.with_node(nodes.method(value.node, "clone", memory_format=dense_format))


def shows_another(node: ast.expr) -> bool:
    """Whether it may be another tensor's memory, seen in another way."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SHOWS:
        node = node.func.value
    return is_view(node)


def is_view(node: ast.expr) -> bool:
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


def tensor_of(low: Lowering, node: ast.Call, value: Value) -> Value:
    described = low.described(node)
    if described is None or described.tensor is None or value.cell != 1:
        raise DeclinedError("a tensor of a list whose dtype was not seen")
    # Python's floats have forgotten their dtype: the tensor's is the default one, whatever they were read from.
    made = nodes.method(value.node, "detach") if value.live or _may_be_tracked(low, value) else value.node
    if value.dtype != described.tensor.dtype or (value.number and value.floating):
        made = low.cast(made, described.tensor.dtype)
    result = replace(value, node=made, number=False, live=False, dtype=described.tensor.dtype)
    return dense(result, low.torch)


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
