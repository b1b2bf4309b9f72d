"""The axes of what an access leaves, put in order. A label is the loop that an axis runs over, or a number."""

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
