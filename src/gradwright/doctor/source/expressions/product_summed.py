"""``(a[:, :, None] * b[None]).sum(1)``: a product of tensors that broadcast, made only to be summed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from gradwright.doctor.source.expressions.suspect import (
    FunctionNode,
    Suspect,
    integer,
    is_number,
    is_torch_function,
    own_nodes,
)
from gradwright.doctor.source.statements import Origins

MOST_FACTORS = 3


@dataclass(frozen=True)
class Sum:
    """``factors`` of the product, the axes it is summed over (None: all of them), whether they stay with length 1."""

    factors: tuple[ast.expr, ...]
    products: tuple[ast.BinOp, ...]
    axes: tuple[int, ...] | None
    keep: bool


def find(function: FunctionNode, origins: Origins) -> Iterator[Suspect]:
    """``parts``: the factors."""
    for node in own_nodes(function):
        if isinstance(node, ast.Call) and (read := read_sum(node, origins)) is not None:
            yield Suspect("product summed", node, function, read.factors, read.products)


def read_sum(call: ast.Call, origins: Origins) -> Sum | None:
    """The sum of a product of two or three factors, none of them a number, over axes that are written out."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "sum":
        return None
    if is_torch_function(call, origins):
        if not call.args:
            return None
        product, rest = call.args[0], call.args[1:]
    else:
        product, rest = call.func.value, call.args
    options = {keyword.arg: keyword.value for keyword in call.keywords}
    if set(options) - {"dim", "axis", "keepdim", "keepdims"} or any(isinstance(one, ast.Starred) for one in rest):
        return None
    found = _axes(rest, options)
    products = tuple(_products(product))
    if found is None or not products:
        return None
    factors = (products[-1].left, *(one.right for one in reversed(products)))
    if len(factors) > MOST_FACTORS or any(map(is_number, factors)):
        return None
    return Sum(factors, products, found[0], found[1])


def _products(node: ast.expr) -> Iterator[ast.BinOp]:
    """``a * b * c`` as the product with ``c``, then that with ``b``."""
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        yield node
        node = node.left


def _axes(rest: list[ast.expr], options: dict[str | None, ast.expr]) -> tuple[tuple[int, ...] | None, bool] | None:
    keep = options.get("keepdim", options.get("keepdims"))
    where = options.get("dim", options.get("axis"))
    if where is None and len(rest) == 2 and isinstance(rest[1], ast.Constant) and isinstance(rest[1].value, bool):
        rest, keep = rest[:1], rest[1]
    if keep is not None and not (isinstance(keep, ast.Constant) and isinstance(keep.value, bool)):
        return None
    kept = isinstance(keep, ast.Constant) and keep.value is True
    given = rest if where is None else [where]
    if not given:
        return None, kept
    listed = given[0].elts if len(given) == 1 and isinstance(given[0], ast.Tuple | ast.List) else given
    axes = [integer(axis) for axis in listed]
    plain = [axis for axis in axes if axis is not None]
    return (tuple(plain), kept) if plain and len(plain) == len(axes) else None


# --- the views of a factor -------------------------------------------------------------------------------------------


def axes_of(factor: ast.expr, rank: int) -> tuple[ast.expr, tuple[bool, ...]] | None:
    """What a factor of ``rank`` axes is a view of, and which of its axes that has too (the others were put in).

    >>> base, own = axes_of(ast.parse("a[:, None].unsqueeze(-1)", mode="eval").body, 4)
    >>> ast.unparse(base), own
    ('a', (True, False, True, False))
    """
    own = [True] * rank
    while True:
        if isinstance(factor, ast.Call) and isinstance(factor.func, ast.Attribute) and factor.func.attr == "unsqueeze":
            arguments = [*factor.args, *(keyword.value for keyword in factor.keywords)]
            axis = integer(arguments[0]) if len(arguments) == 1 else None
            present = [index for index, mine in enumerate(own) if mine]
            if axis is None or not -len(present) <= axis < len(present):
                return None
            own[present[axis]] = False
            factor = factor.func.value
        elif isinstance(factor, ast.Subscript) and (inserted := _inserted(factor.slice)) is not None:
            if not any(inserted):
                return factor, tuple(own)
            present = [index for index, mine in enumerate(own) if mine]
            if len(inserted) > len(present):
                return None
            for index, new in zip(present, _spread(inserted, factor.slice, len(present)), strict=True):
                own[index] = not new
            factor = factor.value
        else:
            return factor, tuple(own)


def _inserted(index: ast.expr) -> list[bool] | None:
    """Of ``[:, None]``: per item whether it is a new axis. None, if an item is another kind of index."""
    items = index.elts if isinstance(index, ast.Tuple) else [index]
    found = []
    for item in items:
        if isinstance(item, ast.Constant) and item.value is ...:
            continue
        whole = isinstance(item, ast.Slice) and item.lower is item.upper is item.step is None
        new = isinstance(item, ast.Constant) and item.value is None
        if not (whole or new):
            return None
        found.append(new)
    return found


def _spread(inserted: list[bool], index: ast.expr, rank: int) -> list[bool]:
    """For each of ``rank`` axes whether it is new; an ellipsis, or the end, stands for those that are not named."""
    items = index.elts if isinstance(index, ast.Tuple) else [index]
    places = [at for at, item in enumerate(items) if isinstance(item, ast.Constant) and item.value is ...]
    at = places[0] if places else len(inserted)
    return [*inserted[:at], *[False] * (rank - len(inserted)), *inserted[at:]]
