"""Sizes: symbols while the graph is worked on, ``x.shape[0]`` when it is printed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch

from gradwright.functions.derive.refuse import size_trouble
from gradwright.ground.torch_versions.tracing import (
    CleanDiv,
    FloatPow,
    FloatTrueDiv,
    FloorDiv,
    IntTrueDiv,
    Max,
    Min,
    Mod,
    PowByNatural,
    PythonMod,
    ShapeEnv,
    ToFloat,
    TruncToInt,
    example_values,
    free_unbacked_symbols,
)


class ValueDependence(Exception):
    """A number that only the values of a tensor decide."""


def expression_of(value: Any) -> Any:
    """A SymInt (SymFloat, SymBool) as its simplified expression, an int where it is a number; else the value itself."""
    if not isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return value
    if free_unbacked_symbols(value):
        raise ValueDependence
    found = value.node.shape_env.simplify(value.node.expr)
    if isinstance(found, sympy.Integer):
        return int(found)
    if isinstance(found, sympy.Float):
        return float(found)
    return found


def symbolic(expression: sympy.Expr, shape_env: ShapeEnv) -> Any:
    """The SymInt of an integer expression, the SymFloat of any other."""
    hint = number_of(expression, shape_env)
    if expression.is_integer:
        return shape_env.create_symintnode(expression, hint=hint)
    return shape_env.create_symfloatnode(expression, hint=hint)


def number_of(expression: Any, shape_env: ShapeEnv) -> Any:
    """What an expression comes to for the example inputs."""
    if not isinstance(expression, sympy.Basic):
        return expression
    found = shape_env.simplify(expression).xreplace(example_values(shape_env))
    return int(found) if found.is_integer else float(found)


def symbols_in(tree: Any) -> set[sympy.Symbol]:
    """The symbols that an argument's sizes are made of."""
    if isinstance(tree, sympy.Basic):
        return set(tree.free_symbols)
    if isinstance(tree, (list, tuple)):
        return set().union(*(symbols_in(item) for item in tree)) if tree else set()
    if isinstance(tree, dict):
        return symbols_in(list(tree.values()))
    return set()


class Sizes:
    """How sizes are written where certain tensors are in reach.

    ``offers``: (text, shape) of each tensor in reach, first choice first; a saved shape is one of them.
    """

    def __init__(self, offers: Iterable[tuple[str, tuple[Any, ...]]]) -> None:
        self.offers = list(offers)
        self.by_expression: dict[Any, str] = {}
        for text, shape in self.offers:
            for axis, size in enumerate(shape):
                if isinstance(size, sympy.Expr):
                    self.by_expression.setdefault(size, f"{text}[{axis}]")

    def missing(self, tree: Any) -> set[sympy.Symbol]:
        """The symbols that can't be written from what is in reach."""
        if isinstance(tree, (list, tuple)):
            return set().union(*(self.missing(item) for item in tree)) if tree else set()
        if isinstance(tree, dict):
            return self.missing(list(tree.values()))
        if tree in self.by_expression if isinstance(tree, sympy.Basic) else True:
            return set()
        return {symbol for symbol in tree.free_symbols if symbol not in self.by_expression}

    def shape(self, sizes: tuple[Any, ...]) -> str | None:
        """A whole shape under one name, if a tensor in reach has it."""
        if len(sizes) and symbols_in(sizes):
            for text, shape in self.offers:
                if shape == sizes:
                    return text
        return None

    def text(self, size: Any) -> str:
        """One size as Python, in brackets where it is more than a name."""
        found = self.outer(size)
        return f"({found})" if " " in found and not found.startswith(("max(", "min(")) else found

    def outer(self, size: Any) -> str:
        """One size as Python, where nothing stands beside it."""
        if size in self.by_expression:
            return self.by_expression[size]
        if isinstance(size, (int, float, sympy.Integer, sympy.Float)):
            return repr(int(size) if isinstance(size, (int, sympy.Integer)) else float(size))
        if isinstance(size, sympy.Rational):
            return f"{size.p} / {size.q}"
        if isinstance(size, (sympy.Add, sympy.Mul)):
            return self._polynomial(size)
        parts = [self.text(part) for part in size.args]
        if isinstance(size, (sympy.Pow, FloatPow, PowByNatural)):
            return " ** ".join(parts)
        if isinstance(size, (FloorDiv, CleanDiv)):
            return f"{parts[0]} // {parts[1]}"
        if isinstance(size, (IntTrueDiv, FloatTrueDiv)):
            return f"{parts[0]} / {parts[1]}"
        if isinstance(size, (Mod, PythonMod)):
            return f"{parts[0]} % {parts[1]}"
        if isinstance(size, ToFloat):
            return parts[0]
        if isinstance(size, TruncToInt):
            return f"int({self.outer(size.args[0])})"
        if isinstance(size, (Max, Min)):
            return f"{'max' if isinstance(size, Max) else 'min'}({', '.join(parts)})"
        raise size_trouble(
            f"derive can't write the size {size} as Python.",
            why="sizes are written with + - * / // % ** int, min and max",
            do="give the size as a number, or write the backward yourself with gw.custom_gradient",
        )

    def _polynomial(self, size: sympy.Expr) -> str:
        """Sums and products, in factors: x.shape[0] * (x.shape[1] - 1)."""
        factored = sympy.factor(size)
        if isinstance(factored, sympy.Add):
            terms = sorted(factored.args, key=lambda term: (term.could_extract_minus_sign(), term.is_number, str(term)))
            text = self.text(terms[0])
            for term in terms[1:]:
                minus = term.could_extract_minus_sign()
                text += f" {'-' if minus else '+'} {self._term(-term if minus else term)}"
            return text
        if not isinstance(factored, sympy.Mul):
            return self.outer(factored)
        if factored.could_extract_minus_sign():
            return f"-{self.text(-factored)}"
        below = [one for one in factored.args if isinstance(one, sympy.Pow) and one.exp.is_negative]
        above = [one for one in factored.args if one not in below and one != 1]
        text = " * ".join(self.text(one) for one in above) or "1"
        return text + "".join(f" / {self.text(1 / one)}" for one in below)

    def _term(self, term: sympy.Expr) -> str:
        return self.outer(term) if isinstance(term, sympy.Mul) else self.text(term)
