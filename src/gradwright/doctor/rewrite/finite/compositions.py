"""What torch has a function of its own for that neither overflows nor rounds to 0 on the way.

``log(softmax(x))``, ``log(sigmoid(x))``, ``log(sum(exp(x)))``, ``log(1 + exp(x))``, ``exp(x) / exp(x).sum()``,
``1 / (1 + exp(-x))``: whichever of their operations it began in, and also where a part has a name of its own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradwright.doctor.rewrite.finite.operations import Operation
from gradwright.doctor.rewrite.finite.place import Change, Place

_MOST_ABOVE = 6


def stable_forms(place: Place) -> Iterator[Change]:
    """The largest composition around the operation first."""
    if not isinstance(place.node, ast.expr):
        return
    for node in _around_and_uses(place):
        place.until = node.lineno
        place.opened = False
        found = _stable(place, node)
        if found is None:
            continue
        new, whole, name = found
        what = f"{name} does not leave the range of the format on the way"
        if place.opened:
            yield Change(node, new, what, whole, new, dropped=_not_needed(place, node, new), opened=True)
        else:
            yield Change(node, new, what)
    place.until = place.statement.lineno


def _not_needed(place: Place, node: ast.expr, new: str) -> ast.stmt | None:
    """The statement that gave a part of it a name, where nobody else uses the name."""
    for name in ast.walk(node):
        made = place.assignment_of(name) if isinstance(name, ast.Name) else None
        if made is None or not isinstance(name, ast.Name) or not _is_arithmetic(place, made.value):
            continue
        inside = {id(one) for one in ast.walk(node)}
        stays = any(isinstance(one, ast.Name) and one.id == name.id for one in ast.walk(ast.parse(f"({new})")))
        if not stays and all(id(one) in inside for one in place.uses(name.id)):
            return made
    return None


def _is_arithmetic(place: Place, value: ast.expr) -> bool:
    operation = place.operation(value)
    return operation is not None and operation.name in ("exp", "softmax", "sigmoid", "sum", "add", "sub")


def _around_and_uses(place: Place) -> Iterator[ast.expr]:
    """Expressions that may be the whole: the operation, what stands around it, and where its name is used."""
    node: ast.AST = place.expression
    chain = [place.expression]
    for around in place.around(node):
        if not isinstance(around, ast.expr) or len(chain) > _MOST_ABOVE:
            break
        chain.append(around)
    yield from reversed(chain)
    statement = place.statement
    named = isinstance(statement, ast.Assign) and len(statement.targets) == 1
    target = statement.targets[0] if isinstance(statement, ast.Assign) and named else None
    if not isinstance(target, ast.Name):
        return
    for use in place.uses(target.id):
        above: ast.AST = use
        for _ in range(_MOST_ABOVE):
            above = place.parent(above)
            if not isinstance(above, ast.expr):
                break
            yield above


def _stable(place: Place, node: ast.expr) -> tuple[str, str, str] | None:
    """The new text, the old one with its names opened, and what the new one is called."""
    operation = place.operation(node)
    if operation is None:
        return None
    if operation.name == "log" and len(operation.operands) == 1:
        return _logarithm(place, node, operation.operand)
    if operation.name == "log1p":
        return _softplus(place, node, operation.operand)
    if operation.name == "div" and len(operation.operands) == 2:
        return _softmax(place, operation) or _sigmoid(place, operation)
    if operation.name == "reciprocal":
        return _sigmoid_below(place, operation.operand)
    return None


def _logarithm(place: Place, node: ast.expr, operand: ast.expr) -> tuple[str, str, str] | None:
    taken: list[str] = []
    whole = operand
    inner = _seen(place, operand)
    while isinstance(inner, ast.Subscript) or _is_gather(place, inner):  # of some entries: then of the whole
        receiver = inner.value if isinstance(inner, ast.Subscript) else inner.func.value  # type: ignore[attr-defined]  # a gather
        first, last = place.splice.span(receiver)[1], place.splice.span(inner)[1]
        taken.insert(0, place.splice.text[first:last])
        whole = receiver
        inner = _seen(place, receiver)
    made = place.operation(inner)
    if made is None:
        return None
    suffix = "".join(taken)
    opened = f"({place.code(inner)}){suffix}"
    log = f"{place.torch}.log({opened})"
    functional = place.functional
    if made.name == "div" and (parts := _softmax_parts(place, made)) is not None:  # written out
        x, along = parts
        old = f"{place.torch}.log(({_softmax_text(place, x, along)}){suffix})"
        return f"{place.torch}.log_softmax({x}, dim={along}){suffix}", old, "log_softmax"
    if made.name == "softmax" and isinstance(inner, ast.Call):
        rest = _rest(place, inner)
        return f"{place.torch}.log_softmax({', '.join([place.code(made.operand), *rest])}){suffix}", log, "log_softmax"
    if made.name == "sigmoid":
        return f"{functional}.logsigmoid({place.code(made.operand)}){suffix}", log, "logsigmoid"
    if suffix or whole is not operand:
        return None
    if made.name == "sub" and _is_one(made.operands[0]):  # 1 - sigmoid(x)
        sigmoid = place.operation(_seen(place, made.operands[1]))
        if sigmoid is not None and sigmoid.name == "sigmoid":
            old = f"{place.torch}.log(1 - {place.torch}.sigmoid({place.code(sigmoid.operand)}))"
            return f"{functional}.logsigmoid(-{place.splice.closed(sigmoid.operand)})", old, "logsigmoid"
    if made.name == "add":
        one = next((part for part in made.operands if _is_one(part)), None)
        other = next((part for part in made.operands if part is not one), None)
        if one is not None and other is not None:
            return _softplus(place, node, other, plus_one=True)
    if made.name == "sum":
        return _logsumexp(place, made, inner)
    return None


def _softplus(
    place: Place, node: ast.expr, operand: ast.expr, *, plus_one: bool = False
) -> tuple[str, str, str] | None:
    inner = place.operation(_seen(place, operand))
    if inner is None or inner.name != "exp":
        return None
    x = place.code(inner.operand)
    exp = f"{place.torch}.exp({x})"
    old = f"{place.torch}.log(1 + {exp})" if plus_one else f"{place.torch}.log1p({exp})"
    return f"{place.functional}.softplus({x})", old, "softplus"


def _logsumexp(place: Place, total: Operation, node: ast.expr) -> tuple[str, str, str] | None:
    inner = place.operation(_seen(place, total.operand))
    if inner is None or inner.name != "exp" or not isinstance(node, ast.Call):
        return None
    rest = _rest(place, node)
    if not rest:
        return None  # of all entries: logsumexp wants to be told along which
    x = place.code(inner.operand)
    old = f"{place.torch}.log({place.torch}.sum({place.torch}.exp({x}), {', '.join(rest)}))"
    return f"{place.torch}.logsumexp({', '.join([x, *rest])})", old, "logsumexp"


def _softmax(place: Place, quotient: Operation) -> tuple[str, str, str] | None:
    parts = _softmax_parts(place, quotient)
    if parts is None:
        return None
    x, along = parts
    return f"{place.torch}.softmax({x}, dim={along})", _softmax_text(place, x, along), "softmax"


def _softmax_text(place: Place, x: str, along: str) -> str:
    e = f"{place.torch}.exp({x})"
    return f"{e} / {e}.sum(dim={along}, keepdim=True)"


def _softmax_parts(place: Place, quotient: Operation) -> tuple[str, str] | None:
    """``x`` and ``dim`` of ``e / e.sum(dim, keepdim=True)`` of an exponential ``e`` of ``x``."""
    if len(quotient.operands) != 2:
        return None
    above, below = quotient.operands
    exponential, total_node = _seen(place, above), _seen(place, below)
    made, total = place.operation(exponential), place.operation(total_node)
    if made is None or made.name != "exp" or total is None or total.name != "sum":
        return None
    same = ast.dump(_seen(place, total.operand)) == ast.dump(exponential)
    dim = next((one.value for one in total.keywords if one.arg == "dim"), None)
    dim = dim or (total.operands[1] if len(total.operands) > 1 else None)
    kept = any(one.arg == "keepdim" and isinstance(one.value, ast.Constant) and one.value.value is True
               for one in total.keywords)  # fmt: skip
    kept = kept or (len(total.operands) > 2 and getattr(total.operands[2], "value", None) is True)
    if not same or dim is None or not kept:
        return None
    return place.code(made.operand), place.code(dim)


def _sigmoid(place: Place, quotient: Operation) -> tuple[str, str, str] | None:
    return _sigmoid_below(place, quotient.operands[1]) if _is_one(quotient.operands[0]) else None


def _sigmoid_below(place: Place, below: ast.expr) -> tuple[str, str, str] | None:
    """``1 / (1 + exp(-x))``."""
    total = place.operation(_seen(place, below))
    if total is None or total.name != "add":
        return None
    parts = [place.operation(_seen(place, part)) for part in total.operands]
    exponential = next((one for one in parts if one is not None and one.name == "exp"), None)
    if exponential is None or not any(map(_is_one, total.operands)):
        return None
    given = exponential.operand
    code = place.code(given)
    x = code[1:].lstrip() if _begins_with_minus(given) else f"-{place.splice.factor(given)}"
    old = f"1 / (1 + {place.torch}.exp({place.code(given)}))"
    return f"{place.torch}.sigmoid({x})", old, "sigmoid"


# --- small questions -------------------------------------------------------------------------------------------------


def _seen(place: Place, node: ast.expr) -> ast.expr:
    """Through a name that is given once."""
    return place.value_of(node)


def _begins_with_minus(node: ast.expr) -> bool:
    """``-x``, ``-2 * x``."""
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        node = node.left
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)


def _is_gather(place: Place, node: ast.expr) -> bool:
    method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    operation = place.operation(node)
    return method and operation is not None and operation.name == "gather" and operation.operand is node.func.value  # type: ignore[attr-defined]  # a method


def _is_one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value == 1


def _rest(place: Place, call: ast.Call) -> list[str]:
    """All arguments but the operand, as they are written."""
    operation = place.operation(call)
    assert operation is not None
    return [*map(place.code, operation.operands[1:]), *map(place.code, operation.keywords)]
