"""Functions of Python's, torch's and NumPy's that are those of formulas: recognised by the object, not by a name."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

_TRIGONOMETRIC: Final = ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")
_SMOOTH: Final = ("exp", "log", "log1p", "expm1", "sqrt", *_TRIGONOMETRIC)


def _as_they_are(*names: str) -> dict[str, str]:
    return {name: name for name in names}


# For each module: its name for a function, and ours. torch's softplus, relu and the like take further arguments, which
# are refused; torch.max and min are elementwise with two arguments, and with one they are refused.
_MODULES: Final[Mapping[str, Mapping[str, str]]] = {
    "builtins": _as_they_are("abs", "min", "max", "pow"),
    "math": {**_as_they_are(*_SMOOTH, "erf", "pow"), "fabs": "abs"},
    "torch": {
        **_as_they_are(*_SMOOTH, "erf", "sigmoid", "abs", "sign", "minimum", "maximum", "min", "max", "clamp", "where"),
        **_as_they_are("pow", "square", "relu", "rsqrt"),
        **{f"arc{name}": f"a{name}" for name in ("sin", "cos", "tan")},
        "absolute": "abs",
        "clip": "clamp",
    },
    "torch.special": {**_as_they_are("expm1", "log1p", "erf"), "expit": "sigmoid"},
    "torch.nn.functional": {
        **_as_they_are("softplus", "sigmoid", "tanh", "relu", "silu"),
        "logsigmoid": "log_sigmoid",
    },
    "numpy": {
        **_as_they_are("exp", "log", "log1p", "expm1", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh"),
        **_as_they_are("abs", "sign", "minimum", "maximum", "where", "square"),
        **{f"arc{name}": f"a{name}" for name in ("sin", "cos", "tan")},
        "fabs": "abs",
        "power": "pow",
        "clip": "clamp",
    },
}


def known_as(thing: object) -> str | None:
    """Our name for a function; None for any other object.

    >>> import math
    >>> known_as(math.exp), known_as(math.factorial)
    ('exp', None)
    """
    found = _known(tuple(module for module in _MODULES if module in sys.modules)).get(id(thing))
    return found[1] if found is not None else None


@lru_cache(maxsize=2)
def _known(modules: tuple[str, ...]) -> dict[int, tuple[Any, str]]:
    """By the object's id; the object is held, so that no other gets its id."""
    found: dict[int, tuple[Any, str]] = {}
    for module in modules:
        for name, ours in _MODULES[module].items():
            thing = getattr(sys.modules[module], name, None)
            if thing is not None:
                found[id(thing)] = (thing, ours)
    return found
