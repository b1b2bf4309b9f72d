"""Is an axis of a recorded value the batch? Followed down to where the network takes in its data.

NOTE [A batch is known by where it comes from]: sizes prove nothing (as many classes, tokens or features as samples).
So an axis is followed through every operation, by the rules of ``derivatives.nodes``. It is the batch where it arrives,
and arrives only, at an operation that takes in data (a convolution or a linear layer of a tensor without a graph, the
lookup of an embedding), as that operation's first axis, sample by sample (``outer`` is 1). Arriving at a parameter, it
is none: features, positions. An operation that nothing is known of ends the search without an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

from torch import nn

from gradwright.derivatives.graph.target import short_name
from gradwright.derivatives.graph.way import Into, Step
from gradwright.derivatives.nodes import Place, rule_of

Verdict: TypeAlias = Literal["batch", "other", "unknown"]

MOST_STEPS = 6_000  # of one search, some microseconds each
_MOST_DIVISORS = 24
_LOOKUPS = ("EmbeddingBackward0", "EmbeddingBagBackward0")
#: Where data may come in: the first axis of what comes out is the first axis of the data, if it is no parameter's.
_ENTRANCES = frozenset((
    "ConvolutionBackward0", "AddmmBackward0", "MmBackward0", "MvBackward0", "AddmvBackward0", "AddBackward0",
    "SubBackward0", "MulBackward0", "DivBackward0", "NativeBatchNormBackward0", "CudnnBatchNormBackward0",
    "NativeLayerNormBackward0", "NativeGroupNormBackward0", "CatBackward0",
))  # fmt: skip
#: What keeps a weight a weight.
_OF_WEIGHTS = frozenset((
    "TBackward0", "TransposeBackward0", "PermuteBackward0", "ViewBackward0", "UnsafeViewBackward0", "ExpandBackward0",
    "ReshapeAliasBackward0", "UnsqueezeBackward0", "SqueezeBackward1", "ToCopyBackward0", "MulBackward0",
    "DivBackward0", "WeightNormInterfaceBackward0", "CloneBackward0",
))  # fmt: skip
_IDENTITIES = ("RegisterPostBackwardFunctionBackward", "_DDPSinkBackward")


class Places:
    """``samples``: of the micro-batch. What was found is kept."""

    def __init__(self, samples: int) -> None:
        self.samples = samples
        self._left = MOST_STEPS
        self._known: dict[tuple[Any, int, Place], Verdict] = {}

    def is_batch(self, into: Into, axis: int) -> bool:
        """Whether the axis of this value is, without doubt, that of the samples, or they lie along it among others."""
        size = into.shape[axis]
        if into.node is None or not size or size % self.samples:
            return False
        rest = size // self.samples
        return any(
            self._verdict(into.node, into.number, Place(axis, outer, rest // outer)) == "batch"
            for outer in _divisors(rest)
        )

    def _verdict(self, node: Any, number: int, place: Place) -> Verdict:
        key = (node, number, place)
        if key not in self._known:
            self._known[key] = self._searched(node, number, place)
        return self._known[key]

    def _searched(self, node: Any, number: int, place: Place) -> Verdict:
        waiting = [(node, number, place)]
        seen = set(waiting)
        found: Verdict = "unknown"
        while waiting:
            self._left -= 1
            if self._left < 0:
                return "unknown"
            here = waiting.pop()
            below, verdict = _followed(*here)
            if verdict == "other":
                return "other"
            if verdict == "batch":
                found = "batch"
            for one in below:
                if one not in seen:
                    seen.add(one)
                    waiting.append(one)
        return found


def _followed(node: Any, number: int, place: Place) -> tuple[list[tuple[Any, int, Place]], Verdict]:
    """Where the axis comes from; or, where it comes from nowhere else, what it is."""
    variable = getattr(node, "variable", None)
    if variable is not None:
        if isinstance(variable, nn.Parameter):
            return [], "other"
        return [], "batch" if _is_first(place) else "unknown"
    step = step_of(node)
    batch = _rule(step.name)
    if batch is None:
        return [], "unknown"
    back = batch(step, place, number)
    below = [
        (into.node, into.number, there)
        for into, there in zip(step.inputs, back, strict=False)
        if there is not None and into.leads
    ]
    if below:
        return below, "unknown"
    return [], "batch" if _is_first(place) and _takes_in_data(step) else "unknown"


def step_of(node: Any) -> Step:
    return Step(
        node, tuple(Into(following, number, following is not None) for following, number in node.next_functions)
    )


def _is_first(place: Place) -> bool:
    return place.axis == 0 and place.outer == 1


def _takes_in_data(step: Step) -> bool:
    """A tensor without a graph comes in, and all others are made of parameters."""
    if step.name in _LOOKUPS:
        return True
    graph = [into.node for into in step.inputs if into.leads]
    return step.name in _ENTRANCES and len(graph) < len(step.inputs) and all(is_of_parameters(node) for node in graph)


def is_of_parameters(node: Any, most: int = 24) -> bool:
    """Whether what is behind a node is a weight, transposed or normalised: parameters, and nothing else."""
    waiting, seen = [node], {node}
    while waiting:
        here = waiting.pop()
        variable = getattr(here, "variable", None)
        if variable is not None:
            if not isinstance(variable, nn.Parameter):
                return False
            continue
        following = [one for one, _ in here.next_functions if one is not None and one not in seen]
        seen.update(following)
        if len(seen) > most or short_name(here) not in _OF_WEIGHTS or not following:
            return False
        waiting += following
    return True


def _rule(name: str) -> Callable[[Step, Place, int], Sequence[Place | None]] | None:
    own = _OWN.get(name)
    if own is not None:
        return own
    known = rule_of(name)
    return None if known is None else known.batch


def _stays(step: Step, place: Place, number: int) -> Sequence[Place | None]:
    """A normalisation over the batch: samples meet, and stay where they are."""
    return [place, *[None] * (len(step.inputs) - 1)]


def _handed_on(step: Step, place: Place, number: int) -> Sequence[Place | None]:
    return [place if index == number else None for index in range(len(step.inputs))]


def _nowhere(step: Step, place: Place, number: int) -> Sequence[Place | None]:
    """What is looked up: its axis comes with the numbers, or is that of the table."""
    return [Place(1) if place.axis == len(step.shape()) - 1 else None]


_OWN = {
    "NativeBatchNormBackward0": _stays,
    "CudnnBatchNormBackward0": _stays,
    "MiopenBatchNormBackward0": _stays,
    **dict.fromkeys(_IDENTITIES, _handed_on),
    **dict.fromkeys(_LOOKUPS, _nowhere),
}


def _divisors(number: int) -> Iterator[int]:
    """How many blocks the samples may lie in: one, as many as there are, or something between."""
    found = [one for one in range(1, min(number, 4096) + 1) if number % one == 0]
    yield from dict.fromkeys([*found[:_MOST_DIVISORS], number])
