"""One number in, one number out: tanh, exp, relu, ..."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from torch import Tensor

from gradwright.derivatives.nodes.rule import Jet, Place, Rule, aligned
from gradwright.derivatives.way import Step

#: From a step: the first derivative, and a function that gives the second (None: it is zero everywhere).
Slopes: TypeAlias = Callable[[Step], tuple[Tensor, Callable[[], Tensor] | None]]


def same_place(step: Step, place: Place, number: int) -> Sequence[Place | None]:
    return [aligned(step, place, into.shape, number) if into.leads else None for into in step.inputs]


def pointwise(slopes: Slopes) -> Rule:
    """The rule of y = f(x), entry by entry: y' = f'(x) x', y'' = f'(x) x'' + f''(x) x' x', summed over directions."""

    def push(step: Step, jets: Sequence[Jet | None], order: int) -> Mapping[int, Jet]:
        (jet,) = (jet for jet in jets if jet is not None)
        slope, curvature = slopes(step)
        second = None if jet.second is None else slope * jet.second
        if order == 2 and curvature is not None:
            bent = curvature() * jet.first.square().sum(0)
            second = bent if second is None else second + bent
        return {0: Jet(slope * jet.first, second)}

    def spread(step: Step, reach: Sequence[Tensor | None]) -> Mapping[int, Tensor]:
        (into,) = (into for into in reach if into is not None)
        return {0: into}

    return Rule(same_place, push, spread)


def _tanh(step: Step) -> tuple[Tensor, Callable[[], Tensor]]:
    y = step.node._saved_result
    slope = 1 - y.square()
    return slope, lambda: -2 * y * slope


RULES = {
    "TanhBackward0": pointwise(_tanh),
}
