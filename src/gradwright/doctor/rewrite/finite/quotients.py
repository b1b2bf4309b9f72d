"""Divisions by a count of nothing, by a norm or a spread of 0; means of nothing.

NOTE [whole numbers]: `clamp(min=1)` changes what lies between 0 and 1, a sum of weights for one. It stands where the
text says that entries are counted; everywhere else 0 alone is replaced.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradwright.doctor.rewrite.finite.place import Change, Place

_COUNTS = ("len", "int", "item", "numel", "size", "count_nonzero")
_CASTS = ("to", "double", "type_as", "long", "int")  # of what is whole already
_COMPARISONS = ("eq", "ne", "gt", "ge", "lt", "le", "bool", "isnan", "isfinite", "logical_and", "logical_not")


def counted(place: Place) -> Iterator[Change]:
    """Nothing, divided by a count of nothing, is 0."""
    named = place.operation(place.node)
    if isinstance(place.node, ast.AugAssign) or (named is not None and named.name == "div"):
        yield from _by_at_least_one(place)
    elif isinstance(place.node, ast.Call):
        yield from _mean(place)
        yield from _cross_entropy(place)


def normalised(place: Place) -> Iterator[Change]:
    """A row of zeros stays one."""
    divisor = _divisor(place)
    if divisor is None:
        return
    above, below = divisor
    name, what = "norm", "what has the norm 0 stays 0"
    if place.fact.cause == "zero-spread":
        name, what = "deviation", "what does not vary is 0"
    text, bound = place.twice(below, name)
    yield _with_divisor(place, above, below, f"{place.torch}.where({text} == 0, 1, {text})", what, text, bound)
    whole = _as_normalize(place, above, below)
    if whole is not None:
        yield Change(place.expression, whole, "normalize divides by 1e-12 at least")


def _by_at_least_one(place: Place) -> Iterator[Change]:
    divisor = _divisor(place)
    if divisor is None:
        return
    above, below = divisor
    what = "a count of nothing divides by 1"
    code, is_whole = place.code(below), counts_entries(place, below)
    tensor, number = f"{place.splice.closed(below)}.clamp(min=1)", f"max({code}, 1)"
    if _is_number(place, below):
        yield _with_divisor(place, above, below, number if is_whole else f"({code} + ({code} == 0))", what, code, None)
    if is_whole:
        for new in (tensor, number):
            yield _with_divisor(place, above, below, new, what, code, None)
    text, bound = place.twice(below, "divisor")
    yield _with_divisor(place, above, below, f"{place.torch}.where({text} == 0, 1, {text})", what, text, bound)


def _divisor(place: Place) -> tuple[ast.expr, ast.expr] | None:
    if isinstance(place.node, ast.AugAssign):
        return (place.node.target, place.node.value) if isinstance(place.node.op, ast.Div) else None
    operation = place.operation(place.node)
    if operation is None or operation.name != "div" or len(operation.operands) != 2:
        return None
    return operation.operands[0], operation.operands[1]


def _with_divisor(
    place: Place, above: ast.expr, below: ast.expr, new: str, what: str, text: str, bound: tuple[str, str] | None
) -> Change:
    """``text``: what the divisor is called behind the line that binds it."""
    if isinstance(place.node, ast.AugAssign):
        target = place.code(above)
        return Change(below, new, what, f"{target} / ({text})", f"{target} / ({new})", bound)
    before = place.with_parts(place.node, [(below, text)]) if bound is not None else ""
    return Change(place.node, place.with_parts(place.node, [(below, new)]), what, before, bound=bound)


def _is_number(place: Place, node: ast.expr) -> bool:
    """Whether the divisor looks like a number of Python's: ``len(x)``, ``mask.sum().item()``, ``n = 0`` counted up."""
    value = place.value_of(node)
    if isinstance(value, ast.Call):
        name = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
        return name in _COUNTS
    if isinstance(value, ast.Constant):
        return True
    if isinstance(value, ast.Subscript):  # x.shape[0]
        return isinstance(value.value, ast.Attribute) and value.value.attr == "shape"
    if not isinstance(node, ast.Name):
        return False
    scope: ast.AST = place.function or place.splice.tree
    starts = [
        one for one in ast.walk(scope)
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.Constant)
        and any(isinstance(target, ast.Name) and target.id == node.id for target in one.targets)
    ]  # fmt: skip
    return bool(starts)


def counts_entries(place: Place, node: ast.expr) -> bool:
    """Whether the text says that it is a whole number: ``len(x)``, ``kept.sum()`` where ``kept`` is a comparison."""
    value = place.value_of(node)
    if isinstance(value, ast.Constant):
        return type(value.value) is int
    if isinstance(value, ast.Subscript):  # x.shape[0]
        return isinstance(value.value, ast.Attribute) and value.value.attr == "shape"
    operation = place.operation(value)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        return value.func.id in ("len", "int")
    if operation is None:
        return False
    if operation.name in ("sum", "item", *_CASTS):
        inner = operation.operand
        return _is_choice(place, inner) if operation.name == "sum" else counts_entries(place, inner)
    return operation.name in ("numel", "size", "count_nonzero")


def _is_choice(place: Place, node: ast.expr) -> bool:
    """Whether the entries are 0 and 1, by the text."""
    value = place.value_of(node)
    if isinstance(value, ast.Compare):
        return True
    if isinstance(value, ast.Subscript):
        return _is_choice(place, value.value)
    if isinstance(value, ast.UnaryOp):
        return isinstance(value.op, ast.Invert) and _is_choice(place, value.operand)
    if isinstance(value, ast.BinOp):
        both = isinstance(value.op, ast.BitAnd | ast.BitOr | ast.Mult)
        return both and _is_choice(place, value.left) and _is_choice(place, value.right)
    operation = place.operation(value)
    if operation is None:
        return False
    if operation.name in ("float", "unsqueeze", "detach", *_CASTS):
        return _is_choice(place, operation.operand)
    return operation.name in _COMPARISONS


def _as_normalize(place: Place, above: ast.expr, below: ast.expr) -> str | None:
    """``x / x.norm(dim=1, keepdim=True)`` as ``F.normalize(x, dim=1)``."""
    norm = place.operation(place.value_of(below))
    if norm is None or norm.name not in ("norm", "vector_norm") or isinstance(place.node, ast.AugAssign):
        return None
    dim = next((place.code(one.value) for one in norm.keywords if one.arg == "dim"), None)
    kept = any(one.arg == "keepdim" and getattr(one.value, "value", None) is True for one in norm.keywords)
    others = [one for one in norm.keywords if one.arg not in ("dim", "keepdim", "p", "ord")]
    powers = [*norm.operands[1:], *(one.value for one in norm.keywords if one.arg in ("p", "ord"))]
    two = all(isinstance(one, ast.Constant) and one.value in (2, 2.0) for one in powers)
    if dim is None or not kept or others or not two or ast.dump(norm.operand) != ast.dump(above):
        return None
    return f"{place.functional}.normalize({place.code(above)}, dim={dim})"


# --- means of nothing ------------------------------------------------------------------------------------------------


def _mean(place: Place) -> Iterator[Change]:
    """``x[mask].mean()`` as a sum divided by 1 at least."""
    operation = place.operation(place.node)
    if operation is None or operation.name != "mean" or len(operation.operands) != 1 or operation.keywords:
        return
    text, bound = place.twice(operation.operand, "chosen")
    before = f"{text}.mean()" if bound is not None else ""
    new = place.enclosed(place.expression, f"{text}.sum() / max({text}.numel(), 1)")
    yield Change(place.expression, new, "the mean of nothing is 0", before, bound=bound)


def _cross_entropy(place: Place) -> Iterator[Change]:
    """All targets ignored: the sum over the others, divided by 1 at least."""
    operation = place.operation(place.node)
    if operation is None or operation.name not in ("cross_entropy", "nll_loss") or len(operation.operands) != 2:
        return
    if any(one.arg != "ignore_index" for one in operation.keywords) or not isinstance(place.node, ast.Call):
        return
    target, bound = place.twice(operation.operands[1], "target")
    ignored = next((place.code(one.value) for one in operation.keywords), "-100")
    call = place.with_parts(place.node, [(operation.operands[1], target)])
    summed = f'{call[:-1].rstrip().rstrip(",")}, reduction="sum")'
    new = place.enclosed(place.node, f"{summed} / ({target} != {ignored}).sum().clamp(min=1)")
    yield Change(place.node, new, "the mean of no targets is 0", call if bound is not None else "", bound=bound)
