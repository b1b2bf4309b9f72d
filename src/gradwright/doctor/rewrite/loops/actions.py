"""A simple statement as actions: assignments, sums and the like, appends, methods that write in place."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gradwright.doctor.rewrite.loops.expressions import (
    is_place,
    made,
    names_of,
    place_of,
    what,
)
from gradwright.doctor.rewrite.loops.ir import Place
from gradwright.doctor.rewrite.loops.joining import grown
from gradwright.doctor.rewrite.loops.tree import Action
from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.doctor.source.seen import Seen
from gradwright.ground.syntax import dotted, shortened

_OPERATORS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_ADDS = {"add_": "+", "sub_": "-", "subtract_": "-", "mul_": "*", "multiply_": "*", "div_": "/", "divide_": "/"}
_EXTREMES = {"max": "max", "min": "min"}
_TORCH_EXTREMES = {"maximum": "max", "minimum": "min", "fmax": "", "max": "max", "min": "min"}
# Methods that write over their own tensor what the method of the same name would give.
_OVER_ITSELF = {
    "abs_", "neg_", "exp_", "log_", "sqrt_", "rsqrt_", "square_", "pow_", "clamp_", "clamp_min_", "clamp_max_", "relu_",
    "sigmoid_", "tanh_", "floor_", "ceil_", "round_", "reciprocal_", "sin_", "cos_", "masked_fill_",
}  # fmt: skip


def assignment(target: ast.expr, value: ast.expr, node: ast.stmt, seen: Seen) -> Action:
    """``target = value``; an accumulation where the value is the old one with something added, and the like."""
    place = place_of(target)
    row = grown(place, value)
    if row is not None:
        return Action("append", place, row, node)
    held = isinstance(target, ast.Subscript) and what(target.value, seen)
    if held and held.type in ("dict", "defaultdict", "OrderedDict"):
        if len(place.indices) != 1:
            raise DeclinedError(f"a dictionary of dictionaries: {ast.unparse(node)}")
        keyed = Place(place.base, (), target)
        return Action("append", keyed, value, node, ast.unparse(place.indices[0]))
    operator, term = accumulation(place, value)
    if operator in ("<", ">", "<=", ">="):
        return Action("extremum", place, term, node, operator)
    if operator:
        return Action("accumulate", place, term, node, operator)
    return Action("assign", place, value, node)


def augmented(target: ast.expr, operator: ast.operator, value: ast.expr, node: ast.stmt, seen: Seen) -> list[Action]:
    """``target += value`` and its kin."""
    place = place_of(target)
    held = what(target, seen)
    if isinstance(value, ast.List) and isinstance(operator, ast.Add) and (held is None or held.type == "list"):
        return [Action("append", place, item, node) for item in _items(value)]
    if held is not None and held.type in ("list", "str", "set", "dict"):
        raise DeclinedError(f"a {held.type} grows in a way that is not an append: {ast.unparse(node)}")
    known = _OPERATORS.get(type(operator))
    if known:
        return [Action("accumulate", place, value, node, known)]
    if isinstance(operator, (ast.BitOr, ast.BitAnd)) and _is_bool(value, held):
        return [Action("accumulate", place, value, node, "or" if isinstance(operator, ast.BitOr) else "and")]
    old = _as_read(target)
    return [Action("assign", place, made(ast.BinOp(old, operator, value)), node)]


def _is_bool(value: ast.expr, held: object) -> bool:
    if isinstance(value, ast.Compare):
        return True
    tensor = getattr(held, "tensor", None)
    return getattr(held, "type", "") == "bool" or (tensor is not None and tensor.dtype == "bool")


def _as_read(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Subscript):
        return ast.copy_location(ast.Subscript(target.value, target.slice, ast.Load()), target)
    if isinstance(target, ast.Attribute):
        return ast.copy_location(ast.Attribute(target.value, target.attr, ast.Load()), target)
    assert isinstance(target, ast.Name)
    return ast.copy_location(ast.Name(target.id, ast.Load()), target)


def called(call: ast.Call, node: ast.stmt, seen: Seen) -> list[Action]:
    """A call that stands alone. Raises: DeclinedError, unless it is known what it writes."""
    if not isinstance(call.func, ast.Attribute):
        raise DeclinedError(f"it is not known what {shortened(call)} does")
    method, target = call.func.attr, call.func.value
    arguments = call.args
    if any(isinstance(argument, ast.Starred) for argument in arguments):
        raise DeclinedError(f"it is not known what {shortened(call)} does")
    held = what(target, seen)
    if method == "append" and len(arguments) == 1 and not call.keywords:
        if held is not None and held.type not in ("list", "deque"):
            raise DeclinedError(f"it is not known what {shortened(call)} does")
        if not dotted(target):
            raise DeclinedError(f"one of several lists grows: {shortened(call)}")
        return [Action("append", place_of(target), arguments[0], node)]
    if method == "extend" and len(arguments) == 1 and isinstance(arguments[0], (ast.List, ast.Tuple)):
        return [Action("append", place_of(target), item, node) for item in _items(arguments[0])]
    if held is None or held.tensor is None:
        raise DeclinedError(f"it is not known what {shortened(call)} does")
    if method in _ADDS and len(arguments) == 1 and not call.keywords:
        return [Action("accumulate", place_of(target), arguments[0], node, _ADDS[method])]
    if method == "copy_" and len(arguments) == 1:
        return [_over(target, arguments[0], node)]
    if method == "fill_" and len(arguments) == 1:
        return [_over(target, arguments[0], node)]
    if method == "zero_" and not arguments:
        return [_over(target, made(ast.Constant(0)), node)]
    if method in _OVER_ITSELF:
        value = made(ast.Call(made(ast.Attribute(_as_read(target), method[:-1], ast.Load())), arguments, call.keywords))
        return [_over(target, value, node)]
    raise DeclinedError(f"it is not known what {shortened(call)} does")


def _over(target: ast.expr, value: ast.expr, node: ast.stmt) -> Action:
    """A write over the elements of a tensor: of a plain name, all of them."""
    if isinstance(target, ast.Subscript):
        return Action("assign", place_of(target), value, node)
    whole = made(ast.Subscript(target, made(ast.Constant(...)), ast.Store()))
    return Action("assign", place_of(whole), value, node)


def _items(value: ast.List | ast.Tuple) -> list[ast.expr]:
    if any(isinstance(item, ast.Starred) for item in value.elts):
        raise DeclinedError(f"a list grows by another: {ast.unparse(value)}")
    return value.elts


# --- what adds to the old value --------------------------------------------------------------------------------------


def accumulation(place: Place, value: ast.expr) -> tuple[str, ast.expr]:
    """The operator and the term, if ``value`` is the old value of the place with a term added, multiplied, compared.

    ``("", value)`` if it is not. ``<`` and the like: ``v if v > old else old``.
    """
    if isinstance(value, ast.BinOp):
        for operators, one, other in (((ast.Add, ast.Sub), "+", "-"), ((ast.Mult, ast.Div), "*", "/")):
            term = _without(value, place, operators)
            if term is not None:
                sign, rest = term
                return (one if sign else other), rest
    if isinstance(value, ast.BoolOp) and is_place(value.values[0], place):
        rest = value.values[1] if len(value.values) == 2 else made(ast.BoolOp(value.op, value.values[1:]))
        return ("or" if isinstance(value.op, ast.Or) else "and"), rest
    if isinstance(value, ast.Call) and len(value.args) == 2 and not value.keywords:
        module, _, function = dotted(value.func).rpartition(".")
        known = _EXTREMES.get(function) if not module else _TORCH_EXTREMES.get(function) if module == "torch" else None
        for old, term_ in (value.args, value.args[::-1]):
            if known and is_place(old, place):
                return known, term_
        if module == "torch" and function == "add" and is_place(value.args[0], place):
            return "+", value.args[1]
    if isinstance(value, ast.IfExp) and isinstance(value.test, ast.Compare) and len(value.test.ops) == 1:
        found = comparison(value.test, place)
        if found and is_place(value.orelse, place) and ast.dump(value.body) == ast.dump(found[1]):
            return found
    return "", value


def comparison(test: ast.Compare, place: Place) -> tuple[str, ast.expr] | None:
    """``(">", v)`` for ``v > place`` or ``place < v``."""
    signs: dict[type[ast.cmpop], str] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
    flipped = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
    sign = signs.get(type(test.ops[0]))
    if len(test.ops) != 1 or sign is None:
        return None
    if is_place(test.comparators[0], place):
        return sign, test.left
    return (flipped[sign], test.comparators[0]) if is_place(test.left, place) else None


def _without(
    value: ast.expr, place: Place, operators: tuple[type[ast.operator], type[ast.operator]]
) -> tuple[bool, ast.expr] | None:
    """The rest of a sum (product) without the old value: ``(True, rest)`` to be added, ``(False, rest)`` subtracted."""
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, operators):
        return None
    straight = isinstance(value.op, operators[0])
    if is_place(value.left, place):
        return straight, value.right
    if straight and is_place(value.right, place):
        return True, value.left
    inner = _without(value.left, place, operators)
    if inner is not None:
        sign, rest = inner
        if sign == straight or not sign:
            # old - a - b is old - (a + b); old - a + b is old - (a - b)
            op: ast.operator = operators[0]() if sign == straight else operators[1]()
            return sign, made(ast.BinOp(rest, op, value.right))
        return True, made(ast.BinOp(rest, operators[1](), value.right))
    if straight:
        inner = _without(value.right, place, operators)
        if inner is not None and inner[0]:
            return True, made(ast.BinOp(value.left, operators[0](), inner[1]))
    return None


# --- what has effects ------------------------------------------------------------------------------------------------

_CHANGES = {"pop", "popleft", "append", "extend", "insert", "remove", "update", "setdefault", "clear", "write", "send"}
_EFFECTS = {"print", "input", "open", "next", "exec", "eval", "setattr", "delattr", "iter", "locals", "globals", "vars"}
_RANDOM = {"rand", "randn", "randint", "random", "randperm", "bernoulli", "multinomial", "normal", "uniform", "dropout"}
_RANDOM |= {"rand_like", "randn_like", "randint_like", "choice", "shuffle", "gauss", "sample", "rsample", "poisson"}


def check_pure(expressions: Sequence[ast.expr]) -> None:
    """Raises: DeclinedError, if one of them does more than compute a value, as far as the text shows it."""
    for node in (inner for expression in expressions for inner in ast.walk(expression)):
        if isinstance(node, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)):
            raise DeclinedError(f"an expression that does more than compute a value: {shortened(node)}")
        if not isinstance(node, ast.Call):
            continue
        function = node.func.attr if isinstance(node.func, ast.Attribute) else dotted(node.func)
        if function in _RANDOM:
            raise DeclinedError(f"the loop draws random numbers: {shortened(node)}")
        in_place = function.endswith("_") and not function.endswith("__") and isinstance(node.func, ast.Attribute)
        changes = isinstance(node.func, ast.Attribute) and function in _CHANGES
        if in_place or changes or (isinstance(node.func, ast.Name) and function in _EFFECTS):
            raise DeclinedError(f"a call inside an expression changes something: {shortened(node)}")
        if names_of(node.func) & {"print"}:
            raise DeclinedError("the loop prints")
