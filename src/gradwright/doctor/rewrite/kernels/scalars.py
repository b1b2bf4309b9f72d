"""Arithmetic on scalars, as the loop's own does it: torch's on tensors without an axis, Python's on its numbers."""

from __future__ import annotations

import ast

from gradwright.doctor.rewrite.kernels.values import Scalar, Type, code, wider
from gradwright.doctor.rewrite.kernels.writer import Writer
from gradwright.doctor.rewrite.source_text import (
    DeclinedError,
)
from gradwright.doctor.source.names import words

# What torch's functions of elements are on numbers. `max(v, 0.0)` gives NaN for NaN, as torch does.
UNARY = {
    "exp": "math.exp(v)", "log": "math.log(v)", "sqrt": "math.sqrt(v)", "tanh": "math.tanh(v)", "sin": "math.sin(v)",
    "cos": "math.cos(v)", "log1p": "math.log1p(v)", "expm1": "math.expm1(v)", "erf": "math.erf(v)",
    "sigmoid": "1.0 / (1.0 + math.exp(-v))", "reciprocal": "1.0 / v", "rsqrt": "1.0 / math.sqrt(v)",
    "floor": "np.floor(v)", "ceil": "np.ceil(v)", "log2": "np.log2(v)", "log10": "np.log10(v)", "atan": "math.atan(v)",
    "sinh": "math.sinh(v)", "cosh": "math.cosh(v)",
}  # fmt: skip
KEEPING = {
    "abs": "abs(v)",
    "absolute": "abs(v)",
    "neg": "-v",
    "negative": "-v",
    "square": "v * v",
    "sign": "np.sign(v)",
}
KEEPING |= {"relu": "max(v, 0)", "positive": "v"}
ASKING = {"isnan": "np.isnan(v)", "isinf": "np.isinf(v)", "isfinite": "np.isfinite(v)"}
SAME = frozenset({"clone", "detach", "contiguous", "squeeze", "cpu"})

# Where Python's own functions raise, and torch's do not.
_DOMAIN = {"log": "v <= 0", "log2": "v <= 0", "log10": "v <= 0", "sqrt": "v < 0", "log1p": "v <= -1"}
_RANGE = {"exp": "709.782712893384 < v < math.inf", "expm1": "709.782712893384 < v < math.inf"}
_RANGE |= {"sinh": "710.4758600739439 < abs(v) < math.inf", "cosh": "710.4758600739439 < abs(v) < math.inf"}
_OF_MATH = words("exp log sqrt tanh sin cos log1p expm1 erf log2 log10 atan sinh cosh")

_ARITHMETIC = {ast.Add: "a + b", ast.Sub: "a - b", ast.Mult: "a * b", ast.Div: "a / b"}


def tensorness(*parts: Scalar) -> bool | None:
    flags = {part.tensor for part in parts}
    return True if True in flags else False if flags == {False} else None


def operand(writer: Writer, scalar: Scalar, result: Type, tensor: bool | None) -> ast.expr:
    """The code of an operand in its result's precision."""
    if not writer.exact or result != "float" or tensor is False or scalar.native:
        return scalar.code
    writer.real = writer.real or writer.fresh("real")
    return code(f"{writer.real}(v)", v=scalar.code)


def rounded(writer: Writer, found: ast.expr, type_: Type) -> Scalar:
    """A sum of reals is Python's number in the kernel."""
    plain = Scalar(found, type_, True)
    if type_ != "float":
        return plain
    return Scalar(operand(writer, plain, "float", True), "float", True, writer.exact)


def number(value: float | int | bool) -> Scalar:
    type_: Type = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "float"
    return Scalar(ast.Constant(value), type_)


def literal(scalar: Scalar) -> float | int | None:
    node, sign = scalar.code, 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node, sign = node.operand, -1
    return sign * node.value if isinstance(node, ast.Constant) and isinstance(node.value, int | float) else None


def binary(writer: Writer, op: ast.operator, a: Scalar, b: Scalar) -> Scalar:
    """Raises: DeclinedError."""
    if isinstance(op, ast.BitAnd | ast.BitOr | ast.BitXor):
        return _logical(op, a, b)
    if isinstance(op, ast.Pow):
        return _power(writer, a, b)
    if isinstance(op, ast.FloorDiv | ast.Mod):
        return _whole_division(writer, op, a, b)
    if type(op) not in _ARITHMETIC:
        raise DeclinedError("it uses an operator that a kernel has not got")
    tensor = tensorness(a, b)
    result = wider(a.type, b.type, "int")
    if isinstance(op, ast.Div):
        result = "float"
        _check_divisor(writer, a, b, tensor)
    if result == "float":
        _check_precision(a, b, tensor)
    parts = [operand(writer, one, result, tensor) for one in (a, b)]
    native = result == "float" and tensor is not False and (writer.exact or (a.native and b.native))
    return Scalar(code(_ARITHMETIC[type(op)], a=parts[0], b=parts[1]), result, tensor, native)


def _check_precision(a: Scalar, b: Scalar, tensor: bool | None) -> None:
    """An integer tensor with a Python float has torch's default dtype, whatever the others have."""
    if tensor is not False and not any(one.type == "float" and one.tensor is not False for one in (a, b)):
        raise DeclinedError("it computes reals from integer tensors, whose precision is torch's default")


def _check_divisor(writer: Writer, a: Scalar, b: Scalar, tensor: bool | None) -> None:
    if literal(b) or tensor:
        return
    if tensor is None:
        raise DeclinedError("what it divides by may be a tensor or a number of Python's, which raises for 0")
    writer.check(code("b == 0", b=b.code), "ZeroDivisionError", "division by zero")


def _whole_division(writer: Writer, op: ast.operator, a: Scalar, b: Scalar) -> Scalar:
    if wider(a.type, b.type) != "int":
        raise DeclinedError("it uses // or % on reals")
    if not literal(b):
        writer.check(code("b == 0", b=b.code), "ZeroDivisionError", "division by zero")
    template = "a // b" if isinstance(op, ast.FloorDiv) else "a % b"
    return Scalar(code(template, a=a.code, b=b.code), "int", tensorness(a, b))


def _power(writer: Writer, a: Scalar, b: Scalar) -> Scalar:
    exponent = literal(b)
    tensor = tensorness(a, b)
    if a.type == "float" and isinstance(exponent, int) and exponent >= 0:
        native = tensor is not False and (writer.exact or a.native)
        base = operand(writer, a, "float", tensor)
        return Scalar(code("a ** b", a=base, b=b.code), "float", tensor, native)
    if exponent == 0.5 and a.type == "float" and a.tensor:
        return unary(writer, "sqrt", a)
    if a.type == "int" and isinstance(exponent, int) and 0 <= exponent <= 3:
        return Scalar(code("a ** b", a=a.code, b=b.code), "int", tensor)
    if tensor is False and (a.type, b.type) == ("float", "int"):
        return _power_of_python(writer, a, b)
    if not tensor:
        raise DeclinedError("a power of Python's own numbers may be of another type")
    _check_precision(a, b, tensor)
    parts = [operand(writer, one, "float", tensor) for one in (a, b)]
    return Scalar(code("a ** b", a=parts[0], b=parts[1]), "float", tensor, writer.exact or (a.native and b.native))


def _power_of_python(writer: Writer, a: Scalar, b: Scalar) -> Scalar:
    """A real to a whole power, which raises in Python where it has no value that is finite."""
    power = writer.let("power", code("a ** float(b)", a=a.code, b=b.code))
    infinite = code("math.isinf(power) and math.isfinite(a)", power=power, a=a.code)
    writer.check(infinite, "OverflowError", "numerical result out of range")
    return Scalar(power, "float")


def _logical(op: ast.operator, a: Scalar, b: Scalar) -> Scalar:
    if (a.type, b.type) != ("bool", "bool") or isinstance(op, ast.BitXor):
        raise DeclinedError("it uses bitwise operators on numbers")
    return Scalar(
        code("a and b" if isinstance(op, ast.BitAnd) else "a or b", a=a.code, b=b.code), "bool", tensorness(a, b)
    )


def compare(writer: Writer, op: ast.cmpop, a: Scalar, b: Scalar) -> Scalar:
    tensor = tensorness(a, b)
    type_ = wider(a.type, b.type)
    if type_ == "float" and tensor is not False:
        writer.compares_reals = True
    left, right = (operand(writer, one, type_, tensor) for one in (a, b))
    if not isinstance(op, ast.Eq | ast.NotEq | ast.Lt | ast.LtE | ast.Gt | ast.GtE):
        raise DeclinedError("it asks for identity or membership")
    return Scalar(ast.Compare(left, [op], [right]), "bool", tensor)


def negated(scalar: Scalar) -> Scalar:
    if scalar.type == "bool":
        raise DeclinedError("it negates a comparison by arithmetic")
    return Scalar(code("-v", v=scalar.code), scalar.type, scalar.tensor, scalar.native)


def unary(writer: Writer, function: str, v: Scalar, *, python: bool = False) -> Scalar:
    """A function of one number. ``python``: math's, which gives a number of Python's and raises outside its domain."""
    if python:
        if function not in _OF_MATH:
            raise DeclinedError(f"math.{function} is not among the functions that a kernel has")
        return _of_math(writer, function, v)
    if function in SAME:
        return v
    if function in ASKING:
        return Scalar(code(ASKING[function], v=v.code), "bool", v.tensor)
    if function in KEEPING:
        if v.type == "bool":
            raise DeclinedError(f"it takes {function} of a comparison")
        return Scalar(code(KEEPING[function], v=v.code), v.type, v.tensor, v.native)
    if v.type != "float":
        raise DeclinedError("it computes reals from integer tensors, whose precision is torch's default")
    # 1.0 in the precision of the rest: a result rounded once more is the same number
    native = v.native and UNARY[function].startswith(("math.", "np."))
    return Scalar(code(UNARY[function], v=v.code), "float", True, native)


def _of_math(writer: Writer, function: str, v: Scalar) -> Scalar:
    v = item_of(v)
    for checks, error, message in (
        (_DOMAIN, "ValueError", "math domain error"),
        (_RANGE, "OverflowError", "math range error"),
    ):
        if function in checks and literal(v) is None:
            writer.check(code(checks[function], v=v.code), error, message)
    if function in ("sin", "cos"):
        writer.check(code("abs(v) == math.inf", v=v.code), "ValueError", "math domain error")
    return Scalar(code(f"math.{function}(v)", v=v.code), "float", False)


def real_of(v: Scalar) -> ast.expr:
    """``float(v)``, which Numba has not got for truth values."""
    return code("1.0 if v else 0.0" if v.type == "bool" else "float(v)", v=v.code)


def item_of(v: Scalar) -> Scalar:
    """``v.item()``, ``float(v)``: Python's own number, in Python's precision."""
    if v.tensor is False or v.type != "float":
        return Scalar(v.code, v.type, False)
    return Scalar(code("float(v)", v=v.code), "float", False)


def extreme(writer: Writer, function: str, parts: list[Scalar]) -> Scalar:
    """Python's ``min`` and ``max``: of equal ones the first, and NaN by its rules."""
    type_ = wider(*(part.type for part in parts))
    if len({part.type for part in parts}) > 1 and "bool" in {part.type for part in parts}:
        raise DeclinedError("it compares truth values with numbers")
    flags = {part.tensor for part in parts}
    call = ast.Call(ast.Name(function, ast.Load()), [part.code for part in parts], [])
    return Scalar(call, type_, flags.pop() if len(flags) == 1 else None, all(part.native for part in parts))


def chosen(writer: Writer, condition: Scalar, a: Scalar, b: Scalar, *, tensor: bool) -> Scalar:
    """``a if condition else b``; of a tensor in any case where torch.where makes one."""
    type_ = wider(a.type, b.type)
    flags = {a.tensor, b.tensor}
    flag = True if tensor else flags.pop() if len(flags) == 1 else None
    parts = [operand(writer, one, type_, flag) for one in (a, b)]
    native = all(part.native for part in (a, b)) or (writer.exact and type_ == "float" and bool(flag))
    return Scalar(code("a if c else b", a=parts[0], b=parts[1], c=condition.code), type_, flag, native)
