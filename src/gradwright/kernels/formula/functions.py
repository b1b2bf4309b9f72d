"""The functions and constants that a formula may name: the whole list, and what each becomes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from gradwright.kernels.formula.composed import log_cosh
from gradwright.kernels.formula.expression import Expression, call, constant, neg
from gradwright.kernels.formula.values import Value, applied, as_number, chosen, compared

CONSTANTS: Final[Mapping[str, float]] = {"pi": math.pi, "inf": math.inf, "nan": math.nan}


@dataclass(frozen=True)
class Function:
    """A function of a formula.

    ``build`` makes an expression of numbers; of a condition and two values, if it ``chooses``. The ``optional``
    parameters may be left out, and given by keyword; ``least`` arguments there must be. ``many``: and any number more.
    """

    parameters: tuple[str, ...]
    build: Callable[..., Value]
    optional: frozenset[str] = frozenset()
    least: int = 1
    many: bool = False
    chooses: bool = False

    def __call__(self, *arguments: Value, **keywords: Value) -> Value:
        if self.chooses:
            return self.build(*arguments)
        return self.build(*map(as_number, arguments), **{name: as_number(value) for name, value in keywords.items()})

    def signature(self, name: str) -> str:
        shown = [f"{parameter}=" if parameter in self.optional else parameter for parameter in self.parameters]
        return f"{name}({', '.join([*shown, '...'] if self.many else shown)})"


def _clamp(x: Expression, min: Expression | None = None, max: Expression | None = None) -> Expression:
    low = constant(-math.inf) if min is None else min
    high = constant(math.inf) if max is None else max
    return call("clamp", x, low, high)


def _several(operation: str, first: Expression, *others: Expression) -> Expression:
    for other in others:
        first = applied(operation, first, other)
    return first


def _relu(x: Expression) -> Expression:
    # Not x > 0: torch's relu passes a NaN on.
    return as_number(chosen(compared("le", x, constant(0.0)), constant(0.0), x))


def _of_one(build: Callable[[Expression], Expression]) -> Function:
    return Function(("x",), build)


_PLAIN: Final = (
    *("exp", "log", "log1p", "expm1", "sqrt", "abs", "sign", "erf", "sigmoid", "softplus"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"),
)
_MINIMUM: Final = Function(("a", "b"), partial(_several, "minimum"), least=2, many=True)
_MAXIMUM: Final = Function(("a", "b"), partial(_several, "maximum"), least=2, many=True)
_LOG_SIGMOID: Final = _of_one(lambda x: neg(applied("softplus", neg(x))))

FUNCTIONS: Final[Mapping[str, Function]] = {
    **{name: _of_one(partial(applied, name)) for name in _PLAIN},
    "where": Function(("condition", "a", "b"), chosen, least=3, chooses=True),
    "min": _MINIMUM,
    "minimum": _MINIMUM,
    "max": _MAXIMUM,
    "maximum": _MAXIMUM,
    "clamp": Function(("x", "min", "max"), _clamp, frozenset({"min", "max"}), least=2),
    "pow": Function(("x", "n"), partial(applied, "pow"), least=2),
    "square": _of_one(lambda x: applied("pow", x, constant(2.0))),
    "relu": _of_one(_relu),
    "silu": _of_one(lambda x: x * applied("sigmoid", x)),
    "log_sigmoid": _LOG_SIGMOID,
    "logsigmoid": _LOG_SIGMOID,
    "log_cosh": _of_one(log_cosh),
    "rsqrt": _of_one(lambda x: 1.0 / applied("sqrt", x)),
}

# What people write for what is there under another name, or can be written.
INSTEAD: Final[Mapping[str, str]] = {
    **{f"arc{name}": f"a{name}(x)" for name in ("sin", "cos", "tan")},
    "ln": "log(x)",
    "log2": "log(x) / log(2)",
    "log10": "log(x) / log(10)",
    "logcosh": "log_cosh(x)",
    "exp2": "exp(log(2) * x)",
    "erfc": "1 - erf(x), which is 0 where x is large",
    "logit": "log(x) - log1p(-x)",
    "expit": "sigmoid(x)",
    "logistic": "sigmoid(x)",
    "swish": "silu(x)",
    "mish": "x * tanh(softplus(x))",
    "gelu": "0.5 * x * (1 + erf(x / sqrt(2)))",
    "clip": "clamp(x, min, max)",
    "fabs": "abs(x)",
    "power": "x ** n",
    "reciprocal": "1 / x",
    "heaviside": "where(x > 0, 1, 0)",
    "isnan": "x != x",
    "float": "x as it is",
}
