"""Expressions as text that a person reads, and that ``read`` reads back to the same expression.

NOTE [Spelled to be read back]: brackets are as few as Python's grammar allows, but for the product behind a sign that
begins with a number: ``-2*x`` is the product with -2, ``-(2*x)`` the negative of a product.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Final, NamedTuple

from gradwright.errors import UsageError
from gradwright.kernels.formula.composed import log_cosh
from gradwright.kernels.formula.expression import Expression, evaluated, in_order

# How tightly an operator of Python's binds.
_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _SIGN, _POWER, _ATOM = range(9)

_INFIX: Final[Mapping[str, tuple[str, int]]] = {
    "add": (" + ", _SUM),
    "sub": (" - ", _SUM),
    "mul": ("*", _PRODUCT),
    "div": ("/", _PRODUCT),
    "and": (" and ", _AND),
    "or": (" or ", _OR),
    "lt": (" < ", _COMPARISON),
    "le": (" <= ", _COMPARISON),
    "gt": (" > ", _COMPARISON),
    "ge": (" >= ", _COMPARISON),
    "eq": (" == ", _COMPARISON),
    "ne": (" != ", _COMPARISON),
}
_OTHER_NAMES: Final = {"minimum": "min", "maximum": "max"}
_LONGEST = 20_000  # characters
_LONG = 80  # characters that go on a line without names for what is shared
_WORTH_A_NAME = 10  # characters


class _Text(NamedTuple):
    text: str
    level: int

    def within(self, level: int) -> str:
        """In brackets, if it binds less tightly than this."""
        return self.text if self.level >= level else f"({self.text})"


def spelled(expression: Expression, names: Mapping[str, str] | None = None) -> str:
    """The expression as infix text. ``names``: other names for some of its inputs.

    What ``read`` made is read back to an expression of the same key. Operations that only derivatives consist of are
    spelled by what they are (``exp(-x**2)``, ``sech(x)**2``, ``sigmoid(x)*sigmoid(-x)``); a value with given slopes as
    the value.
    Raises: UsageError, if the text would have more than 20,000 characters: what is shared is written out each time.

    >>> from gradwright.kernels.formula.reading import read
    >>> spelled(read("where((e) > 0, (q*e), (q - 1)*(e))").output)
    'where(e > 0, q*e, (q - 1)*e)'
    """
    texts = _written_out([expression], names or {}, _LONGEST)
    if texts is None:
        raise UsageError(
            f"this expression is too long to be spelled: more than {_LONGEST:,} characters\n"
            "  why    what it shares between its parts is written out each time\n"
            "  do     use spelled_with_names, which gives the shared parts names"
        )
    return texts[0]


def spelled_with_names(
    outputs: Mapping[str, Expression], names: Mapping[str, str] | None = None
) -> list[tuple[str, str]]:
    """Names and texts, to be printed one below the other: shared parts (``t1``, ``t2``, ...), then the outputs.

    Where all fits into a line, nothing but the outputs.

    >>> from gradwright.kernels.formula.expression import call, number
    >>> x, y = number("x"), number("y")
    >>> spelled_with_names({"f": x * y, "df/dx": y})
    [('f', 'x*y'), ('df/dx', 'y')]
    >>> long = call("exp", call("tanh", x * y + x * y * y) - call("log1p", call("sqrt", x)) * call("sin", y * 2.0))
    >>> for name, text in spelled_with_names({"f": long * x, "df/dx": long * y}):
    ...     print(name, "=", text)
    t1 = exp(tanh(x*y + x*y*y) - log1p(sqrt(x))*sin(y*2))
    f = t1*x
    df/dx = t1*y
    """
    renamed = names or {}
    short = _written_out(list(outputs.values()), renamed, _LONG)
    if short is not None and sum(map(len, short)) <= _LONG:
        return list(zip(outputs, short, strict=True))
    nodes = list(in_order(outputs.values(), _parts))
    uses = Counter(argument.key for node in nodes for argument in _parts(node))
    uses.update(output.key for output in outputs.values())
    taken = {renamed.get(node.name, node.name) for node in nodes if node.name}
    fresh = (name for name in map("t{}".format, count(1)) if name not in taken)
    texts: dict[bytes, _Text] = {}
    lines: list[tuple[str, str]] = []
    for node in nodes:
        text = _spelled(node, [texts[argument.key] for argument in _parts(node)], renamed)
        is_shared = uses[node.key] > 1 and node.arguments and len(text.text) >= _WORTH_A_NAME
        if is_shared or len(text.text) > _LONGEST:
            name = next(fresh)
            lines.append((name, text.text))
            text = _Text(name, _ATOM)
        texts[node.key] = text
    return [*lines, *((label, texts[output.key].text) for label, output in outputs.items())]


def _written_out(outputs: Sequence[Expression], names: Mapping[str, str], longest: int) -> list[str] | None:
    """The texts, with nothing shared; None, if one would have more characters than this."""
    texts: dict[bytes, _Text] = {}
    for node in in_order(outputs, _parts):
        texts[node.key] = _spelled(node, [texts[argument.key] for argument in _parts(node)], names)
        if len(texts[node.key].text) > longest:
            return None
    return [texts[output.key].text for output in outputs]


def _parts(node: Expression) -> Sequence[Expression]:
    """What its text is made of: of a value with given slopes, the value."""
    return node.arguments[1:2] if _composed_as(node) else evaluated(node)


def _composed_as(node: Expression) -> str | None:
    """The name of the function that a user wrote, if it is one that ``composed`` makes of several operations."""
    if node.operation == "given" and len(node.arguments) == 3 and log_cosh(node.arguments[1]).key == node.key:
        return "log_cosh"
    return None


def _spelled(node: Expression, parts: Sequence[_Text], names: Mapping[str, str]) -> _Text:
    operation = node.operation
    if operation in ("input", "condition_input"):
        return _Text(names.get(node.name, node.name), _ATOM)
    if operation == "constant":
        return _constant(node.value)
    if operation == "given":
        name = _composed_as(node)
        return _Text(f"{name}({parts[0].text})", _ATOM) if name else parts[0]
    if operation in _INFIX:
        symbol, level = _INFIX[operation]
        # Equal ones are read from the left; a comparison of comparisons would be a chain.
        left = level + 1 if level == _COMPARISON else level
        return _Text(parts[0].within(left) + symbol + parts[1].within(level + 1), level)
    if operation == "pow":
        return _Text(f"{parts[0].within(_ATOM)}**{_exponent(parts[1])}", _POWER)
    if operation == "neg":
        return _Text(f"-{_behind_sign(parts[0])}", _SIGN if parts[0].level != _PRODUCT else _PRODUCT)
    if operation == "not":
        return _Text(f"not {parts[0].within(_NOT)}", _NOT)
    if operation == "exp_neg_square":
        return _Text(f"exp(-{parts[0].within(_ATOM)}**2)", _ATOM)
    if operation == "sech_square":
        return _Text(f"sech({parts[0].text})**2", _POWER)
    if operation == "sigmoid_slope":
        return _Text(f"sigmoid({parts[0].text})*sigmoid(-{_behind_sign(parts[0])})", _PRODUCT)
    texts = [part.text for part in parts]
    if operation == "clamp":
        texts = _bounds(node, texts)
    return _Text(f"{_OTHER_NAMES.get(operation, operation)}({', '.join(texts)})", _ATOM)


def _constant(value: float) -> _Text:
    is_negative = math.copysign(1.0, value) < 0 and not math.isnan(value)
    is_short = value.is_integer() and abs(value) < 1e15 and not (value == 0 and is_negative)
    return _Text(str(int(value)) if is_short else repr(value), _SIGN if is_negative else _ATOM)


def _exponent(text: _Text) -> str:
    """A sign may stand there, but no product behind it."""
    return text.text if text.level >= _SIGN else f"({text.text})"


def _behind_sign(text: _Text) -> str:
    """NOTE [Spelled to be read back]."""
    begins_with_number = text.text[0] in "0123456789-" or text.text.startswith(("inf", "nan"))
    return text.within(_POWER if text.level in (_PRODUCT, _SIGN) and begins_with_number else _PRODUCT)


def _bounds(node: Expression, texts: Sequence[str]) -> list[str]:
    value, low, high = texts
    if node.arguments[2].is_constant(math.inf) and not node.arguments[1].is_constant(-math.inf):
        return [value, f"min={low}"]
    if node.arguments[1].is_constant(-math.inf) and not node.arguments[2].is_constant(math.inf):
        return [value, f"max={high}"]
    return [value, low, high]
