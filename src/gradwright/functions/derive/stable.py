"""Forms of a forward that lose no digits: the same function, where the plain formula overflows, cancels or gives NaN.

A rule is applied to the forward before it is differentiated, so the gradient is that of the stable form.
"""

from __future__ import annotations

from typing import Any

import torch

from gradwright.functions.derive.graph import Graph, Node
from gradwright.functions.derive.simplify.algebra import operands
from gradwright.functions.derive.simplify.rewriting import Rule
from gradwright.functions.derive.simplify.sums import axes_of, keeps

aten = torch.ops.aten

# softplus(x) is x + log1p(exp(-x)); from here on the second term is below the last digit of float64.
SOFTPLUS_THRESHOLD = 40.0
# Functions whose slope is infinite or undefined somewhere: where(mask, f(x), y) must not reach them there.
SINGULAR = (aten.sqrt, aten.log, aten.rsqrt, aten.reciprocal, aten.log2, aten.log10, aten.log1p, aten.acos, aten.asin,
            aten.acosh, aten.atanh)  # fmt: skip


def argument(node: Any, *ops: Any) -> Node | None:
    """The one argument of a plain call of one of the operations."""
    if isinstance(node, Node) and node.is_a(*ops) and len(node.args) == 1 and not node.kwargs:
        found: Node = node.args[0]
        return found
    return None


def plus_one(node: Any) -> Node | None:
    """x of 1 + x."""
    if isinstance(node, Node) and (sides := operands(node, aten.add)) and not isinstance(sides[1], Node):
        return sides[0] if sides[1] == 1 else None
    return None


def one_minus(node: Any) -> Node | None:
    """x of 1 - x."""
    if isinstance(node, Node) and (sides := operands(node, aten.rsub)) and not isinstance(sides[1], Node):
        return sides[0] if sides[1] == 1 else None
    return None


def negated(node: Node, graph: Graph) -> Node:
    return node.args[0] if node.is_a(aten.neg) else graph.make(aten.neg.default, node)


def real(node: Node | None) -> bool:
    return node is not None and node.dtype.is_floating_point


def sigmoid(node: Node, graph: Graph) -> Node | None:
    if sides := operands(node, aten.div.Tensor):
        above, below = argument(sides[0], aten.exp), plus_one(sides[1])
        if real(above) and below is sides[0]:
            return graph.make(aten.sigmoid.default, above)
    if (inner := argument(plus_one(argument(node, aten.reciprocal)), aten.exp)) is not None and real(inner):
        return graph.make(aten.sigmoid.default, negated(inner, graph))
    return None


def one_minus_sigmoid(node: Node, graph: Graph) -> Node | None:
    inner = argument(one_minus(node), aten.sigmoid)
    return graph.make(aten.sigmoid.default, negated(inner, graph)) if inner is not None else None


def softplus(node: Node, graph: Graph) -> Node | None:
    inner = argument(plus_one(argument(node, aten.log)), aten.exp)
    if inner is None:
        inner = argument(argument(node, aten.log1p), aten.exp)
    return graph.make(aten.softplus.default, inner, 1, SOFTPLUS_THRESHOLD) if real(inner) else None


def log_sigmoid(node: Node, graph: Graph) -> Node | None:
    inner = argument(argument(node, aten.log), aten.sigmoid)
    if inner is None:
        return None
    below = graph.make(aten.softplus.default, negated(inner, graph), 1, SOFTPLUS_THRESHOLD)
    return graph.make(aten.neg.default, below)


def log_softmax(node: Node, graph: Graph) -> Node | None:
    inner = argument(node, aten.log)
    if inner is not None and inner.is_a(aten._softmax):
        return graph.make(aten._log_softmax.default, *inner.args)
    return None


def sum_of_exp(node: Any) -> tuple[Node, list[int], bool] | None:
    """x, axes and keepdim of sum(exp(x), axes)."""
    if not isinstance(node, Node) or (axes := axes_of(node)) is None:
        return None
    inner = argument(node.args[0], aten.exp)
    if inner is None or not real(inner) or without_its_largest(inner):
        return None
    return inner, axes, keeps(node)


def without_its_largest(node: Node) -> bool:
    """x - x.max(): what the stable forms do, done by hand."""
    if not (sides := operands(node, aten.sub)) or not isinstance(sides[1], Node):
        return False
    largest = sides[1]
    while largest.parents and not largest.is_a(aten.amax, aten.max):
        largest = largest.parents[0]
    return largest.is_a(aten.amax, aten.max) and sides[0] in largest.parents


def logsumexp(node: Node, graph: Graph) -> Node | None:
    if found := sum_of_exp(argument(node, aten.log)):
        return graph.make(aten.logsumexp.default, *found)
    return None


def softmax(node: Node, graph: Graph) -> Node | None:
    if (sides := operands(node, aten.div.Tensor)) and (found := sum_of_exp(sides[1])):
        source, axes, kept = found
        if argument(sides[0], aten.exp) is source and len(axes) == 1 and kept:
            return graph.make(aten._softmax.default, source, axes[0], False)
    return None


def expm1(node: Node, graph: Graph) -> Node | None:
    for ops, one in ((aten.sub, 1), (aten.add, -1)):
        if (sides := operands(node, ops)) and not isinstance(sides[1], Node) and sides[1] == one:
            inner = argument(sides[0], aten.exp)
            if real(inner):
                return graph.make(aten.expm1.default, inner)
    return None


def log1p(node: Node, graph: Graph) -> Node | None:
    below = argument(node, aten.log)
    if real(inner := plus_one(below)) and inner is not None and not inner.is_a(aten.exp):
        return graph.make(aten.log1p.default, inner)
    if real(inner := one_minus(below)) and inner is not None and not inner.is_a(aten.exp):
        return graph.make(aten.log1p.default, negated(inner, graph))
    return None


def squared(node: Any) -> Node | None:
    """x of x * x or x ** 2."""
    if not isinstance(node, Node):
        return None
    if (sides := operands(node, aten.mul.Tensor)) and sides[0] is sides[1]:
        return sides[0] if real(sides[0]) else None
    sides = operands(node, aten.pow.Tensor_Scalar)
    return sides[0] if sides and sides[1] == 2 and real(sides[0]) else None


def norm(node: Node, graph: Graph) -> Node | None:
    inner = argument(node, aten.sqrt)
    if inner is None or (axes := axes_of(inner)) is None:
        return None
    source = squared(inner.args[0])
    if source is None or not axes:
        return None
    return graph.make(aten.linalg_vector_norm.default, source, 2, axes, keeps(inner))


def is_nonnegative(node: Any) -> bool:
    """Is it never below zero, as far as its formula tells?"""
    if not isinstance(node, Node):
        return isinstance(node, (int, float)) and node >= 0
    if node.is_a(aten.abs, aten.exp, aten.sigmoid, aten.relu, aten.softplus, aten.sqrt, aten.linalg_vector_norm):
        return True
    if squared(node) is not None:
        return True
    if node.is_a(aten.sum, aten.mean, aten.amax, aten.expand, aten.unsqueeze, aten.view, aten.clamp_max):
        return is_nonnegative(node.args[0])
    sides = operands(node, aten.add, aten.mul, aten.div)
    return sides is not None and is_nonnegative(sides[0]) and is_nonnegative(sides[1])


def is_positive(node: Node) -> bool:
    """Is it above zero by a number that its formula names?"""
    if node.is_a(aten.clamp, aten.clamp_min) and isinstance(node.args[1], (int, float)):
        return node.args[1] > 0
    sides = operands(node, aten.add)
    return sides is not None and isinstance(sides[1], (int, float)) and sides[1] > 0 and is_nonnegative(sides[0])


def is_harmless(branch: Node, inner: Node) -> bool:
    """Can the singular point not be reached?"""
    return is_nonnegative(inner) if branch.is_a(aten.log1p) else is_positive(inner)


def guarded(node: Node, graph: Graph) -> Node | None:
    if not node.is_a(aten.where.self):
        return None
    mask, *branches = node.args
    for place, branch in enumerate(branches):
        inner = argument(branch, *SINGULAR)
        if (
            inner is None
            or inner.is_a(aten.where.self)
            or is_harmless(branch, inner)
            or inner.shape != node.shape
            or not real(inner)
        ):
            continue
        one = graph.make(aten.ones_like.default, inner)
        chosen = (inner, one) if place == 0 else (one, inner)
        safe = graph.make(aten.where.self, mask, *chosen)
        given = [*branches]
        given[place] = graph.make(branch.op, safe)
        return graph.make(aten.where.self, mask, *given)
    return None


RULES = [
    Rule("sigmoid", "exp(x) / (1 + exp(x)) is inf / inf from x = 89 on (float32); sigmoid(x) is right everywhere",
         sigmoid),
    Rule("one minus sigmoid", "1 - sigmoid(x) is 0 from x = 17 on (float32); sigmoid(-x) keeps its digits",
         one_minus_sigmoid),
    Rule("softplus", "log(1 + exp(x)) is inf from x = 89 on, and 0 below x = -17 (float32); softplus(x) is right",
         softplus),
    Rule("log of sigmoid", "log(sigmoid(x)) is -inf below x = -104 (float32); -softplus(-x) is right", log_sigmoid),
    Rule("log of softmax", "softmax underflows to 0 and its log to -inf; log_softmax does not", log_softmax),
    Rule("logsumexp", "exp(x) overflows from x = 89 on (float32); logsumexp takes out the largest x first", logsumexp),
    Rule("softmax", "exp(x) / exp(x).sum() is inf / inf from x = 89 on (float32); softmax takes out the largest x",
         softmax),
    Rule("expm1", "exp(x) - 1 has no digit left for |x| < 1e-8 (float32); expm1(x) has all", expm1),
    Rule("log1p", "log(1 + x) has no digit left for |x| < 1e-8 (float32); log1p(x) has all", log1p),
    Rule("norm", "sqrt(sum(x * x)) has the slope 0 / 0 at x = 0; the norm's is taken as 0 there", norm),
    Rule("guarded branch", "where(mask, f(x), y) multiplies the slope of f by 0 where it isn't chosen, and inf * 0 is "
         "NaN; f is given 1 there instead", guarded),
]  # fmt: skip
