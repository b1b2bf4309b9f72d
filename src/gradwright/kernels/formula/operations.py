"""The operations that a formula may consist of. Each has a rule in ``rules``, a spelling in ``spelling``, and code in
every file of ``kernels.code``; a test holds the four together.
"""

from __future__ import annotations

from typing import Final

# How many arguments; "where" and "clamp" (value, low, high) take three.
ARITY: Final = {
    **dict.fromkeys(("add", "sub", "mul", "div", "pow", "minimum", "maximum"), 2),
    **dict.fromkeys(("exp", "log", "log1p", "expm1", "sqrt", "neg", "abs", "sign"), 1),
    **dict.fromkeys(("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"), 1),
    **dict.fromkeys(("erf", "sigmoid", "softplus"), 1),
    **dict.fromkeys(("lt", "le", "gt", "ge", "eq", "ne", "and", "or"), 2),
    "not": 1,
    "where": 3,
    "clamp": 3,
    # What only derivatives need, in the form that keeps its relative accuracy (NOTE [Stable derivatives]).
    "exp_neg_square": 1,  # exp(-x²), the slope of erf
    "sech_square": 1,  # 1 - tanh(x)²
    "sigmoid_slope": 1,  # sigmoid(x) sigmoid(-x)
    # The value of its first argument, with slopes that the user gave: given(value, x1, slope1, x2, slope2, ...).
    "given": -1,
}
