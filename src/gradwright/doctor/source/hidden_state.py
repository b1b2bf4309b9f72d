"""State that iterations share without a name bound anew: tensors changed in place, the generator of random numbers."""

from __future__ import annotations

import ast

from gradwright.doctor.source.accesses import Nest, own_nodes
from gradwright.doctor.source.reductions import key
from gradwright.ground.syntax import shortened

_MODULES = frozenset({"torch", "F", "np", "numpy", "random", "nn"})
_RANDOM = frozenset(
    {
        "rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "bernoulli", "multinomial",
        "normal", "poisson", "dropout", "gumbel_softmax", "random", "uniform", "gauss", "choice", "shuffle", "sample",
        "standard_normal",
    }
)  # fmt: skip
_RANDOM_METHODS = frozenset({"normal_", "uniform_", "bernoulli_", "random_", "exponential_", "cauchy_", "bernoulli"})
_OVERWRITING = frozenset({"copy_", "fill_", "zero_", "set_", "normal_", "uniform_", "requires_grad_"})
_GATHERING = frozenset({"add_", "sub_", "mul_", "div_", "logical_or_", "logical_and_"})


def changed_in_place(nest: Nest) -> str:
    """A tensor that every iteration changes by its own methods: ``h.mul_(0.9).add_(x[i])``. "" if there is none."""
    for statement, _, _ in nest.statements:
        place: ast.expr | None = statement.value if isinstance(statement, ast.Expr) else None
        chain: list[str] = []
        while isinstance(place, ast.Call) and isinstance(place.func, ast.Attribute):
            chain.insert(0, place.func.attr)
            place = place.func.value
        name = key(place) if place is not None else ""
        if not name or name in nest.bound or not chain or not all(map(_in_place, chain)):
            continue
        gathers = len(chain) == 1 and chain[0] in _GATHERING and not _read(nest, name, statement)
        if chain[0] not in _OVERWRITING and not gathers:
            return f"{name} is changed in place by every iteration: {shortened(statement)}"
    return ""


def draws(nest: Nest) -> str:
    """A call that draws random numbers: every iteration changes the generator's state. "" if there is none."""
    for statement, _, _ in nest.statements:
        for node in own_nodes(statement):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            root, method = key(node.func).split(".")[0], node.func.attr
            if (root in _MODULES and method in _RANDOM) or method in _RANDOM_METHODS:
                return f"{shortened(node)} draws random numbers, one iteration after the other"
    return ""


def _in_place(method: str) -> bool:
    return method.endswith("_") and not method.endswith("__")


def _read(nest: Nest, name: str, own: ast.stmt) -> bool:
    return any(
        key(node) == name
        for statement, _, _ in nest.statements
        if statement is not own
        for node in own_nodes(statement)
        if isinstance(node, (ast.Name, ast.Attribute))
    )
