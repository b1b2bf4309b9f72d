"""Half precision that ends at 65504: the operation in float32, and its result stays that."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradwright.doctor.rewrite.finite.place import Change, Place

_OF_BOTH = frozenset({"matmul", "mm", "bmm", "dot", "mv"})
_KNOWN = frozenset({"sum", "mean", "mul", "add", "sub", "pow", "square", "exp", "div", "norm", "cumsum", "prod", "var"})


def in_float32(place: Place) -> Iterator[Change]:
    operation = place.operation(place.node)
    if operation is None or operation.name not in _KNOWN | _OF_BOTH or place.fact.phase != "forward":
        return
    node = place.expression
    given = operation.operands if operation.name in _OF_BOTH else operation.operands[:1]
    for parts in (given, operation.operands[1:2] if isinstance(node, ast.BinOp) else ()):
        if parts and not any(isinstance(one, ast.Constant) for one in parts):
            wide = [(one, f"{place.splice.closed(one)}.float()") for one in parts]
            yield Change(node, place.with_parts(node, wide), "computed in float32, whose end is 3.4e38")
