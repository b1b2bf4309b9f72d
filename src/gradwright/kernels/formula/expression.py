"""Formulas of numbers as graphs: what an expression is, and the few rewrites that change no bit of a result.

NOTE [Only exact rewrites]: float arithmetic is neither associative nor distributive, ``0 * x`` is NaN at infinity, and
``x + 0.0`` turns -0.0 into 0.0. An expression is what its author wrote: besides the folding of constants, only rewrites
that hold for every float (``x * 1``, ``x / 1``, ``x - 0``, signs moved out of products) are made.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

NUMBER: Final = "number"
CONDITION: Final = "condition"

# Of conditions; everything else is a number. "where" takes a condition and two numbers.
COMPARISONS: Final = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
CONNECTIVES: Final = frozenset({"and", "or", "not"})
COMMUTATIVE: Final = frozenset({"add", "mul", "minimum", "maximum", "eq", "ne", "and", "or"})
# a > b is b < a, for NaN too.
_MIRRORED: Final = {"gt": "lt", "ge": "le"}


@dataclass(frozen=True, eq=False, repr=False)
class Expression:
    """A node: an operation of ``kernels.formula.operations``, "input", "constant" or "condition_input".

    Two expressions that compute the same have the same ``key`` (a digest, the same in every process; that of ``a + b``
    is that of ``b + a``, and that of ``a > b`` that of ``b < a``), which is how common subexpressions are found.
    """

    operation: str
    arguments: tuple[Expression, ...] = ()
    value: float = 0.0  # of a constant
    name: str = ""  # of an input
    key: bytes = field(init=False)

    def __post_init__(self) -> None:
        keys = [argument.key for argument in self.arguments]
        if self.operation in COMMUTATIVE:
            keys.sort()
        if self.operation in _MIRRORED:
            keys.reverse()
        text = f"{_MIRRORED.get(self.operation, self.operation)}|{float(self.value).hex()}|{self.name}|".encode()
        object.__setattr__(self, "key", hashlib.blake2b(text + b"".join(keys), digest_size=16).digest())

    @property
    def kind(self) -> str:
        is_condition = self.operation in COMPARISONS or self.operation in CONNECTIVES
        return CONDITION if is_condition or self.operation == "condition_input" else NUMBER

    def is_constant(self, value: float | None = None) -> bool:
        """Is it a constant (of this value, where one is given; 0.0 and -0.0 are two)?"""
        if self.operation != "constant":
            return False
        return value is None or (self.value == value and math.copysign(1, self.value) == math.copysign(1, value))

    def __add__(self, other: Expression | float) -> Expression:
        return add(self, of(other))

    def __radd__(self, other: float) -> Expression:
        return add(of(other), self)

    def __sub__(self, other: Expression | float) -> Expression:
        return sub(self, of(other))

    def __rsub__(self, other: float) -> Expression:
        return sub(of(other), self)

    def __mul__(self, other: Expression | float) -> Expression:
        return mul(self, of(other))

    def __rmul__(self, other: float) -> Expression:
        return mul(of(other), self)

    def __truediv__(self, other: Expression | float) -> Expression:
        return div(self, of(other))

    def __rtruediv__(self, other: float) -> Expression:
        return div(of(other), self)

    def __neg__(self) -> Expression:
        return neg(self)


def constant(value: float) -> Expression:
    return Expression("constant", value=float(value))


def of(value: Expression | float) -> Expression:
    return value if isinstance(value, Expression) else constant(value)


def number(name: str) -> Expression:
    """An input that is a number."""
    return Expression("input", name=name)


def condition(name: str) -> Expression:
    """An input that is true or false: a mask."""
    return Expression("condition_input", name=name)


def call(operation: str, *arguments: Expression) -> Expression:
    """An operation that is rewritten by nothing; see ``operations.ARITY``."""
    return Expression(operation, arguments)


def neg(x: Expression) -> Expression:
    if x.is_constant():
        return constant(-x.value)
    return x.arguments[0] if x.operation == "neg" else call("neg", x)


def add(a: Expression, b: Expression) -> Expression:
    if a.is_constant() and b.is_constant():
        return constant(a.value + b.value)
    if a.is_constant(-0.0):
        return b
    if b.is_constant(-0.0):
        return a
    if b.operation == "neg":
        return sub(a, b.arguments[0])
    if a.operation == "neg":
        return sub(b, a.arguments[0])
    return call("add", a, b)


def sub(a: Expression, b: Expression) -> Expression:
    if a.is_constant() and b.is_constant():
        return constant(a.value - b.value)
    if b.is_constant(0.0):
        return a
    if b.operation == "neg":
        return add(a, b.arguments[0])
    return call("sub", a, b)


def mul(a: Expression, b: Expression) -> Expression:
    if a.is_constant() and b.is_constant():
        return constant(a.value * b.value)
    for one, other in ((a, b), (b, a)):
        if one.is_constant(1.0):
            return other
        if one.is_constant(-1.0):
            return neg(other)
        if one.operation == "neg":
            return neg(mul(one.arguments[0], other))
    return call("mul", a, b)


def div(a: Expression, b: Expression) -> Expression:
    if a.is_constant() and b.is_constant() and b.value != 0:
        return constant(a.value / b.value)
    if b.is_constant(1.0):
        return a
    if b.is_constant(-1.0):
        return neg(a)
    if a.operation == "neg":
        return neg(div(a.arguments[0], b))
    if b.operation == "neg":
        return neg(div(a, b.arguments[0]))
    return call("div", a, b)


def where(choice: Expression, a: Expression, b: Expression) -> Expression:
    if a.key == b.key:
        return a
    if choice.operation == "not":
        return where(choice.arguments[0], b, a)
    if a.operation == "where" and a.arguments[0].key == choice.key:
        return where(choice, a.arguments[1], b)
    if b.operation == "where" and b.arguments[0].key == choice.key:
        return where(choice, a, b.arguments[2])
    return call("where", choice, a, b)


def not_(a: Expression) -> Expression:
    return a.arguments[0] if a.operation == "not" else call("not", a)


def and_(a: Expression, b: Expression) -> Expression:
    return a if a.key == b.key else call("and", a, b)


def or_(a: Expression, b: Expression) -> Expression:
    return a if a.key == b.key else call("or", a, b)


def evaluated(node: Expression) -> Sequence[Expression]:
    """The arguments that its value is made of: of ``given`` the first, as slopes are for derivatives only."""
    return node.arguments[:1] if node.operation == "given" else node.arguments


def count_operations(outputs: Iterable[Expression]) -> int:
    """How many distinct operations the outputs are made of."""
    return sum(bool(node.arguments) for node in in_order(outputs))


def in_order(
    outputs: Iterable[Expression], arguments_of: Callable[[Expression], Sequence[Expression]] = evaluated
) -> Iterator[Expression]:
    """Every distinct expression that the outputs are made of, arguments before what is made of them."""
    done: set[bytes] = set()
    stack = [(output, False) for output in reversed(list(outputs))]
    while stack:
        node, arguments_are_done = stack.pop()
        if node.key in done:
            continue
        if arguments_are_done:
            done.add(node.key)
            yield node
        else:
            stack.append((node, True))
            stack.extend((argument, False) for argument in reversed(arguments_of(node)))
