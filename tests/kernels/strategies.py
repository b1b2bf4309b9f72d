"""Hypothesis strategies: random formulas, and the numbers to put into them::

@given(formulas(), st.data())
@settings(deadline=None)
def test_something(formula, data):
    point = {name: data.draw(values()) for name in formula.inputs}
"""

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from gradwright.kernels.formula.expression import Expression, and_, call, constant, not_, number, or_, where
from gradwright.kernels.formula.functions import FUNCTIONS
from gradwright.kernels.formula.program import Program
from gradwright.kernels.formula.values import applied, as_number

_TINIEST, _TINY, _HUGE = 2.0**-149, 2.0**-126, float.fromhex("0x1.fffffep127")
# All are float32 numbers: zeros, the ends of the subnormals and of the range, NaN, and where exp, softplus, sigmoid,
# tanh, expm1 and erf change their ways.
SPECIALS: tuple[float, ...] = (
    *(sign * value for value in (0.0, 1.0, 0.5, 2.0, _TINIEST, _TINY, _HUGE, math.inf) for sign in (1.0, -1.0)),
    math.nan,
    *(sign * value for value in (1e-7, 0.625, 4.0, 9.0, 20.0, 87.5, 88.75, 103.5, 104.5) for sign in (1.0, -1.0)),
    float.fromhex("0x1.fffffcp-127"),  # the largest subnormal
)
# Those that the random formulas compare with and clamp to, so that `values` meets the boundaries of branches exactly.
LITERALS: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0, 3.0, 0.1, 1e-3, 20.0)

UNARY = (
    *("exp", "log", "log1p", "expm1", "sqrt", "abs", "sign", "erf", "sigmoid", "softplus"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"),
    *("square", "relu", "silu", "log_sigmoid", "rsqrt", "log_cosh"),
)
ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**"}
# "condition": one used as a number. "where", "if" and "condition" need some of ORDERS.
ORDERS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
# Every operation that a user can write; `formulas(operations=...)` takes some of them.
OPERATIONS = (
    *(*UNARY, *ARITHMETIC, *ORDERS),
    *("neg", "minimum", "maximum", "clamp", "where", "if", "condition", "and", "or", "not"),
)


@dataclass(frozen=True)
class Drawn:
    """A formula as fully bracketed text, and the expression that the text stands for."""

    text: str
    output: Expression = field(repr=False)

    @property
    def inputs(self) -> tuple[str, ...]:
        """In the order of their first appearance in the text."""
        found: dict[str, int] = {}
        for name in "xyz":
            place = self.text.find(f"({name})")
            if place >= 0:
                found[name] = place
        return tuple(sorted(found, key=lambda name: found[name]))

    @property
    def program(self) -> Program:
        return Program(self.inputs, (self.output,))


def values(*, finite: bool = False, width: int = 32) -> st.SearchStrategy[float]:
    """Numbers to put in: specials, the constants of formulas and their neighbours, and floats of every size."""
    near = [math.nextafter(c, way) if width == 64 else c * (1 + way) for c in LITERALS for way in (-(2**-23), 2**-23)]
    return st.one_of(
        st.sampled_from([value for value in SPECIALS if math.isfinite(value) or not finite]),
        st.sampled_from([*LITERALS, *(-c for c in LITERALS)]).map(_as_float32 if width == 32 else float),
        st.sampled_from(near).map(_as_float32 if width == 32 else float),
        st.floats(-4.0, 4.0, width=width),
        st.floats(allow_nan=not finite, allow_infinity=not finite, width=width),
    )


def formulas(
    *,
    inputs: Sequence[str] = "xyz",
    operations: Sequence[str] = OPERATIONS,
    max_depth: int = 4,
) -> st.SearchStrategy[Drawn]:
    """Random formulas of at least one and at most these inputs (of "x", "y", "z"), made of these operations."""
    drawn = _formula(tuple(inputs), tuple(operations), max_depth)
    return drawn.filter(lambda formula: bool(formula.inputs) and not formula.output.is_constant())


@st.composite
def _formula(draw: st.DrawFn, inputs: tuple[str, ...], operations: tuple[str, ...], max_depth: int) -> Drawn:
    """Every operation is as likely as another, which `st.recursive` would not give."""
    orders = [name for name in ORDERS if name in operations]
    connectives = [name for name in ("and", "or", "not") if name in operations]
    whole = [name for name in operations if name not in ORDERS and name not in ("and", "or", "not")]

    def number_of(depth: int) -> Drawn:
        if depth == 0 or not draw(st.integers(0, 5)):
            if draw(st.integers(0, 3)):
                name = draw(st.sampled_from(inputs))
                return Drawn(f"({name})", number(name))
            value = draw(st.sampled_from(LITERALS))
            return Drawn(repr(value), constant(value))
        name = draw(st.sampled_from(whole))
        if name in ("where", "if", "condition"):
            chosen_by = condition_of(depth - 1)
            if name == "condition":
                return Drawn(f"(0.0 + {chosen_by.text})", constant(0.0) + as_number(chosen_by.output))
            a, b = number_of(depth - 1), number_of(depth - 1)
            text = f"where({chosen_by.text}, {a.text}, {b.text})"
            if name == "if":
                text = f"({a.text} if {chosen_by.text} else {b.text})"
            return Drawn(text, where(chosen_by.output, a.output, b.output))
        if name == "neg":
            a = number_of(depth - 1)
            return Drawn(f"(-{a.text})", applied("neg", a.output))
        count = {"clamp": 3, "minimum": 2, "maximum": 2}.get(name, 2 if name in ARITHMETIC else 1)
        arguments = [number_of(depth - 1) for _ in range(count)]
        return _infix(name, *arguments) if name in ARITHMETIC else _called(name, *arguments)

    def condition_of(depth: int) -> Drawn:
        joined = connectives and depth and not draw(st.integers(0, 2))  # at depth 0 it could go on for ever
        name = draw(st.sampled_from(connectives)) if joined else "compare"
        if name == "not":
            a = condition_of(depth - 1)
            return Drawn(f"(not {a.text})", not_(a.output))
        if name in ("and", "or"):
            a, b = condition_of(depth - 1), condition_of(depth - 1)
            return Drawn(f"({a.text} {name} {b.text})", (and_ if name == "and" else or_)(a.output, b.output))
        order = draw(st.sampled_from(orders))
        a, b = number_of(depth), number_of(depth)
        if a.output.is_constant() and b.output.is_constant():  # that would be settled while reading
            a = Drawn(f"({inputs[0]})", number(inputs[0]))
        return Drawn(f"({a.text} {ORDERS[order]} {b.text})", call(order, a.output, b.output))

    return number_of(draw(st.integers(1, max_depth)))


def _called(name: str, *arguments: Drawn) -> Drawn:
    text = ", ".join(argument.text for argument in arguments)
    return Drawn(f"{name}({text})", as_number(FUNCTIONS[name](*[argument.output for argument in arguments])))


def _infix(operation: str, a: Drawn, b: Drawn) -> Drawn:
    return Drawn(f"({a.text} {ARITHMETIC[operation]} {b.text})", applied(operation, a.output, b.output))


def _as_float32(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])
