"""The vjp and the jvp of formulas, as formulas.

NOTE [One table]: a formula has one output per element, so the partial derivative by which a cotangent is multiplied on
the way back is the one by which a tangent is multiplied on the way forward: one table (``rules``) serves both.

NOTE [No rewriting of formulas]: log(1 + exp(x)), log(cosh(x)) and exp(x) / (1 + exp(x)) overflow where the function
that is meant is finite, and so do their derivatives: sinh/cosh is inf/inf beyond 89 in float32. What was written is
computed, value and derivative alike, as torch would: a rewrite would change numbers that the author has checked. What
is meant has a name: softplus(x), log_cosh(x), sigmoid(x) hold over the whole range, with all their derivatives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gradwright.kernels.formula.expression import Expression, constant, in_order
from gradwright.kernels.formula.flows import Flow, summed
from gradwright.kernels.formula.rules import rules_of


def pulled_back(
    outputs: Sequence[Expression], cotangents: Sequence[Expression], names: Sequence[str]
) -> tuple[Expression, ...]:
    """The cotangents of the inputs ``names``; a constant 0 for one that no output depends on."""
    arrived: dict[bytes, list[Flow]] = {}
    for output, cotangent in zip(outputs, cotangents, strict=True):
        arrived.setdefault(output.key, []).append(Flow(cotangent))
    order = list(in_order(outputs, with_derivative))
    needed = _on_the_way(order, names)
    found: dict[str, Expression] = {}
    for node in reversed(order):
        if node.key not in needed or node.key not in arrived:
            continue
        total = summed(arrived[node.key])
        if node.operation == "input":
            found[node.name] = total.plain()
            continue
        for argument, rule in zip(node.arguments, rules_of(node), strict=True):
            partial = rule(node) if rule is not None and argument.key in needed else None
            flow = None if partial is None else total.through(partial)
            if flow is not None:
                arrived.setdefault(argument.key, []).append(flow)
    return tuple(found.get(name, constant(0.0)) for name in names)


def pushed_forward(outputs: Sequence[Expression], tangents: Mapping[str, Expression]) -> tuple[Expression, ...]:
    """The tangents of the outputs; a constant 0 for one that depends on no input with a tangent."""
    known: dict[bytes, Flow] = {}
    for node in in_order(outputs, with_derivative):
        if node.operation == "input":
            if node.name in tangents:
                known[node.key] = Flow(tangents[node.name])
            continue
        parts = []
        for argument, rule in zip(node.arguments, rules_of(node), strict=True):
            partial = rule(node) if rule is not None and argument.key in known else None
            flow = None if partial is None else known[argument.key].through(partial)
            if flow is not None:
                parts.append(flow)
        if parts:
            known[node.key] = summed(parts)
    return tuple(known[output.key].plain() if output.key in known else constant(0.0) for output in outputs)


def with_derivative(node: Expression) -> Sequence[Expression]:
    """The arguments through which a derivative may go."""
    return [argument for argument, rule in zip(node.arguments, rules_of(node), strict=True) if rule is not None]


def _on_the_way(order: Sequence[Expression], names: Sequence[str]) -> set[bytes]:
    """The keys of what depends on an input of these names."""
    found: set[bytes] = set()
    for node in order:
        if (node.operation == "input" and node.name in names) or any(a.key in found for a in with_derivative(node)):
            found.add(node.key)
    return found
