"""The axes of what an access leaves, put in order, and what that does to memory.

A label is the loop that an axis runs over, or a number.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.ir import Loop


def diagonals(node: ast.expr, labels: list[Loop | int]) -> tuple[ast.expr, list[Loop | int]]:
    """``x[i, i]``: the diagonal, as the last axis."""
    while True:
        twice = next((one for one in labels if isinstance(one, Loop) and labels.count(one) > 1), None)
        if twice is None:
            return node, labels
        first = labels.index(twice)
        second = labels.index(twice, first + 1)
        where = [] if (first, second) == (0, 1) else [nodes.constant(0), nodes.constant(first), nodes.constant(second)]
        node = nodes.method(node, "diagonal", *where)
        labels = [one for index, one in enumerate(labels) if index not in (first, second)] + [twice]


def permuted(node: ast.expr, labels: list[Loop | int], order: Sequence[Loop]) -> ast.expr:
    def place(label: Loop | int) -> tuple[int, int]:
        return (0, order.index(label)) if isinstance(label, Loop) else (1, label)

    wanted = sorted(labels, key=place)
    if wanted == labels:
        return node
    positions = [labels.index(label) for label in wanted]
    if len(labels) == 2:
        return nodes.attribute(node, "T")
    moved = [index for index, position in enumerate(positions) if index != position]
    if len(moved) == 2:
        return nodes.method(node, "transpose", nodes.constant(moved[0]), nodes.constant(moved[1]))
    return nodes.method(node, "permute", *map(nodes.constant, positions))


_TURNS = frozenset({"transpose", "permute", "movedim", "einsum", "mT", "T", "t", "conv1d", "conv2d", "conv3d"})
_ANEW = frozenset(
    {"sum", "mean", "prod", "amax", "amin", "max", "min", "argmax", "argmin", "all", "any", "norm", "logsumexp", "item"}
)


def may_be_turned(node: ast.expr) -> bool:
    """Whether the elements may lie in memory in another order than that of the axes, so that a view is refused.

    What is computed of ``x.T`` element by element lies as x does; sums and products of matrices lie in their order.
    """
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return False
    if isinstance(node, ast.Attribute) and node.attr in _TURNS:
        return True
    function = node.func if isinstance(node, ast.Call) else None
    if isinstance(function, ast.Attribute) and function.attr in _TURNS:
        return True
    if isinstance(function, ast.Attribute) and function.attr in _ANEW:
        return False
    inside = [child.value if isinstance(child, ast.keyword) else child for child in ast.iter_child_nodes(node)]
    return any(may_be_turned(child) for child in inside if isinstance(child, ast.expr))
