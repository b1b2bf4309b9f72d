"""From a loss down through its arithmetic: is it a curved function of a sum over the batch, or one of pairs of samples?

NOTE [What couples]: with samples z_b, a loss splits where it is sum_b f(z_b), or that over a count that is known. Two
things are looked for, each only where NOTE [A batch is known by where it comes from] leaves no doubt:

- statistics: a sum over the batch that something curved is done with (a quotient of sums, the root of a mean), or what
  is no sum at all along the batch: a sort or a softmax; a maximum or a norm, above which no sum over the batch stands;
- pairs: below such a sum, a softmax, maximum or curved sum along one axis that is the batch, of a value that has the
  batch along another axis, too: similarities of samples.

What stands below a sum over the batch and has one batch axis is left to the model: batch statistics in it are warned
of elsewhere, and some cancel (a maximum that is subtracted within a softmax). Functions in pieces (a flooded loss, a
clamp) are not judged. The walk ends at the first layer, and at every operation that is not in ``families``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from gradwright.derivatives.graph.lines import line_of
from gradwright.derivatives.graph.way import Into, Step
from gradwright.derivatives.nodes.algebra import wrapped
from gradwright.derivatives.nodes.reductions import reduced
from gradwright.ground.torch_versions.nodes import read_saved
from gradwright.training.coupled.finding import ours
from gradwright.training.coupled.finding.families import (
    ALONG,
    CURVED,
    IN_PIECES,
    LINEAR,
    LOSSES,
    MIXING,
    PRODUCTS,
    SUMS,
)
from gradwright.training.coupled.finding.places import Places, is_of_parameters, step_of

_MOST_NODES = 400


@dataclass(frozen=True)
class Meeting:
    """``what``: in words, what the loss does with its samples. ``line``: of the user's code, where it was recorded."""

    what: str
    line: str | None


@dataclass(frozen=True)
class _Above:
    """``curved``: what is done with the value, in words; empty where all is linear. ``sums``: those that stand above,
    with their axes. Whether one is over the batch is asked where something hangs on it: that costs a walk through the
    network."""

    curved: str = ""
    sums: tuple[tuple[Into, tuple[int, ...]], ...] = ()

    def summed(self, places: Places) -> bool:
        """Whether a sum over the batch stands above."""
        return any(places.is_batch(into, axis) for into, axes in self.sums for axis in axes)


def find_meeting(loss: Tensor, samples: int) -> Meeting | None:
    """Where a loss couples the samples of its micro-batch; None where it does not, or that can't be told.

    Cost: some microseconds for each operation of the loss; where one is suspicious, for each of the network.

    >>> from torch import nn
    >>> import torch
    >>> y = nn.Linear(2, 3)(torch.randn(4, 2)).sigmoid()
    >>> find_meeting(1 - 2 * y[:, 0].sum() / y.sum(), 4).what
    'it divides by a sum over the batch (SumBackward0)'
    >>> find_meeting((1 - 2 * y[:, 0] / y.sum(1)).mean(), 4) is None
    True
    """
    if loss.grad_fn is None or samples < 2:
        return None
    places = Places(samples)
    waiting: list[tuple[Any, _Above]] = [(loss.grad_fn, _Above())]
    seen = set(waiting)
    while waiting:
        node, above = waiting.pop()
        step = step_of(node)
        try:
            found = _judged(step, above, places)
        except (AttributeError, IndexError, RuntimeError):  # freed, or saved otherwise by this release: can't be told
            return None
        if isinstance(found, str):
            return Meeting(found, line_of(node))
        for below in found:
            if below not in seen and len(seen) < _MOST_NODES:
                seen.add(below)
                waiting.append(below)
    return None


def _judged(step: Step, above: _Above, places: Places) -> str | list[tuple[Any, _Above]]:
    """What couples here, in words; or what to look at next."""
    name = step.name
    if name in PRODUCTS:
        return _product(step, above, places)
    if name.startswith("MulBackward") and len(step.leading) == 2:
        return _of_two(step, above, places)
    if name.startswith("DivBackward") and step.inputs[-1].leads and len(step.inputs) == 2:
        return _quotient(step, above)
    if name in LINEAR or name in IN_PIECES:
        return _next(step, above)
    if name in CURVED:
        straight = name == "PowBackward0" and read_saved(step.node, "exponent") == 1
        return _next(step, above if straight or above.curved else _Above(f"takes {CURVED[name]} of", above.sums))
    axes = _axes(step)
    if axes is None:
        return []
    into = step.leading[0][1]

    def batch_among(these: Sequence[int]) -> bool:
        return any(places.is_batch(into, axis) for axis in these)

    if batch_among(axes.mixed):
        kept = [axis for axis in range(len(into.shape)) if axis not in axes.mixed]
        summed = above.summed(places) or batch_among(axes.summed)
        pairs = summed and batch_among(kept)
        if pairs or name in ALONG or not above.summed(places):
            return f"it takes {axes.how} over the batch ({name}{', between samples' if pairs else ''})"
    if above.curved and batch_among(axes.summed):
        kept = [axis for axis in range(len(into.shape)) if axis not in axes.summed]
        pairs = above.summed(places) and batch_among(kept)
        if pairs or not above.summed(places):
            return f"it {above.curved} a sum over the batch ({name}{', between samples' if pairs else ''})"
    curved = above.curved or (f"takes {axes.how} of" if axes.how else "")
    sums = ((into, tuple(axes.summed)),) if axes.summed else ()
    return _next(step, _Above(curved, above.sums + sums))


def _axes(step: Step) -> ours.Ours | None:
    """None for what is no reduction that is known."""
    name = step.name
    if not step.leading:
        return None
    shape = step.leading[0][1].shape
    every = range(len(shape))
    if name in SUMS:
        return ours.Ours(summed=reduced(step))
    if name in LOSSES:
        is_reduced = read_saved(step.node, "reduction") != 0
        return ours.Ours(summed=[axis for axis in every if axis != 1 or "Nll" not in name] if is_reduced else ())
    if name in MIXING:
        of_sizes = 1 in (read_saved(step.node, "ord", None), read_saved(step.node, "p", None))
        return ours.Ours(summed=reduced(step)) if of_sizes else ours.Ours(reduced(step), MIXING[name])
    if name in ALONG:
        return ours.Ours([wrapped(read_saved(step.node, "dim"), len(shape))] if shape else (), ALONG[name])
    return ours.axes_of(step.node, shape)


def _next(step: Step, above: _Above) -> list[tuple[Any, _Above]]:
    return [(into.node, above) for _, into in step.leading if not hasattr(into.node, "variable")]


def _quotient(step: Step, above: _Above) -> list[tuple[Any, _Above]]:
    over, under = step.inputs
    below = [(under.node, _Above("divides by", above.sums))]
    return below + ([(over.node, above)] if over.leads else [])


def _of_two(step: Step, above: _Above, places: Places) -> str | list[tuple[Any, _Above]]:
    """A product of two sums over the batch is curved; that of one and a parameter is not."""
    if all(_is_sum_over_batch(into, places) for _, into in step.leading) and not above.summed(places):
        return f"it multiplies two sums over the batch ({step.name})"
    return _next(step, above)


def _is_sum_over_batch(into: Into, places: Places) -> bool:
    """Through what is linear, to a sum along the batch."""
    waiting, seen = [into], 0
    while waiting and seen < _MOST_NODES:
        seen += 1
        step = step_of(waiting.pop().node)
        if step.name in LINEAR or step.name in IN_PIECES or step.name in CURVED:
            waiting += [inner for _, inner in step.leading if not hasattr(inner.node, "variable")]
        elif step.name in SUMS:
            (_, below), *_ = step.leading
            if any(places.is_batch(below, axis) for axis in reduced(step)):
                return True
            waiting.append(below)
    return False


def _product(step: Step, above: _Above, places: Places) -> str | list[tuple[Any, _Above]]:
    """Of matrices: it sums over an axis of both. The walk goes on where one of them is a constant."""
    factors = step.inputs[-2:]
    if any(into.leads and is_of_parameters(into.node) for into in factors):
        return []
    axes = [
        (into, (max(len(into.shape) + axis, 0),))
        for into, axis in zip(factors, PRODUCTS[step.name], strict=True)
        if into.leads
    ]
    summed = _Above("", tuple(axes))
    if above.curved and summed.summed(places) and not above.summed(places):
        return f"it {above.curved} a sum over the batch ({step.name})"
    return _next(step, _Above(above.curved, above.sums + summed.sums)) if len(step.leading) == 1 else []
