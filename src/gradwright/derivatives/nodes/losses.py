"""Losses that torch records as one node. Only ``reduction="none"`` keeps samples apart, and only it is pushed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.nodes.algebra import linear_push, moved, real, the_reach
from gradwright.derivatives.nodes.elementwise import Factor, by_backward, elementwise, same_place
from gradwright.derivatives.nodes.rule import Place, Pushes, Rule
from gradwright.ground.torch_versions.nodes import read_saved

#: Of a node: the second derivative of the loss in its first input.
Curvature = Callable[[Any], Tensor | float]


def _none(step: Step) -> bool:
    return bool(read_saved(step.node, "reduction") == 0)


def _batch(step: Step, place: Place, number: int) -> Sequence[Place | None]:
    return same_place(step, place, number) if _none(step) else [None] * len(step.inputs)


def _loss(curvature: Curvature, pushes: Pushes) -> Rule:
    def bend(step: Step, slope: object) -> Callable[[int, int], Factor]:
        made = curvature(step.node)
        return lambda i, j: made if i == j else -made

    rule = elementwise(by_backward, bend)
    return Rule(_batch, rule.push, rule.spread, pushes=lambda step, order: _none(step) and pushes(step, order))


def _of_difference(curvature: Curvature) -> Rule:
    """The rule of a loss f(x - t): its second derivatives in x, in t and across differ by a sign."""
    return _loss(curvature, real)


def _of_first(curvature: Curvature) -> Rule:
    """The rule of a loss f(x; t), pushed where t is a constant."""
    return _loss(curvature, lambda step, order: not any(place for place, _ in step.leading))


def _within(node: Any, bound: float) -> Tensor:
    x: Tensor = read_saved(node, "self")
    inside: Tensor = (x - read_saved(node, "target")).abs() < bound
    return inside.to(x.dtype)


def _smooth_l1(node: Any) -> Tensor | float:
    return _within(node, read_saved(node, "beta")) / read_saved(node, "beta") if read_saved(node, "beta") else 0.0


def _huber(node: Any) -> Tensor:
    return _within(node, read_saved(node, "delta"))


def _weighted(node: Any, bent: Tensor) -> Tensor:
    return bent if read_saved(node, "weight") is None else bent * read_saved(node, "weight")


def _cross_entropy(node: Any) -> Tensor:
    # -t log x - (1 - t) log(1 - x)
    x, t = read_saved(node, "self"), read_saved(node, "target")
    return _weighted(node, t / x.square() + (1 - t) / (1 - x).square())


def _cross_entropy_of_logits(node: Any) -> Tensor:
    # (1 - t) x + (1 + (p - 1) t) log(1 + exp(-x))
    sigmoid = read_saved(node, "self").sigmoid()
    bent = sigmoid * (1 - sigmoid)
    if read_saved(node, "pos_weight") is not None:
        bent = bent * (1 + (read_saved(node, "pos_weight") - 1) * read_saved(node, "target"))
    return _weighted(node, bent)


def _soft_margin(node: Any) -> Tensor:
    # log(1 + exp(-t x))
    t: Tensor = read_saved(node, "target")
    sigmoid: Tensor = (t * read_saved(node, "self")).sigmoid()
    return t.square() * sigmoid * (1 - sigmoid)


def _nll_batch(step: Step, place: Place, number: int) -> Sequence[Place | None]:
    # x [N, C, ...] -> [N, ...]; a lone [C] makes a scalar
    if number or not _none(step):
        return [None]
    return [moved(place, place.axis and place.axis + 1)]


def _nll(step: Step, stack: Tensor) -> Tensor:
    # -w[t] x[t], and 0 where t is the class that is ignored
    node = step.node
    target = read_saved(node, "target")
    ignored = target == (read_saved(node, "ignore_index") + 2**63) % 2**64 - 2**63
    classes = target.masked_fill(ignored, 0)
    axis = 1 if stack.ndim == 2 else 2
    index = classes.unsqueeze(axis - 1).expand(len(stack), *classes.unsqueeze(axis - 1).shape)
    chosen = -stack.gather(axis, index).squeeze(axis)
    if read_saved(node, "weight") is not None:
        chosen = chosen * read_saved(node, "weight")[classes]
    return chosen.masked_fill(ignored, 0)


def _nll_spread(step: Step, reach: Sequence[Tensor | None]) -> Mapping[int, Tensor]:
    into = the_reach(reach)  # which class is chosen differs by sample
    return {0: into.any(1 if into.ndim == 2 else 2)}


_negative_likelihood = Rule(_nll_batch, linear_push(_nll), _nll_spread, pushes=lambda step, order: _none(step))

RULES = {
    "MseLossBackward0": _of_difference(lambda node: 2.0),
    "SmoothL1LossBackward0": _of_difference(_smooth_l1),
    "HuberLossBackward0": _of_difference(_huber),
    "BinaryCrossEntropyBackward0": _of_first(_cross_entropy),
    "BinaryCrossEntropyWithLogitsBackward0": _of_first(_cross_entropy_of_logits),
    "SoftMarginLossBackward0": _of_first(_soft_margin),
    "NllLossBackward0": _negative_likelihood,
    "NllLoss2DBackward0": _negative_likelihood,
}
