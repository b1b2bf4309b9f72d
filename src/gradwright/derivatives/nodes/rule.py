"""What is known of a recorded operation: one rule per kind of node.

A rule is written from the operation's mathematics; a node without one is *unknown*, never assumed harmless.
Every part but ``batch`` is optional: what a rule does not tell is not used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from gradwright.derivatives.graph.way import Step


class Place(NamedTuple):
    """Where the batch lies in a tensor: along ``axis``, whose size is ``outer * B * inner``.

    ``outer`` and ``inner`` are 1 for a plain batch axis. A view that merges axes makes them larger: [S, B, E] viewed as
    [S * B, E] has the batch at axis 0 with ``outer=S``.
    """

    axis: int
    outer: int = 1
    inner: int = 1

    @property
    def plain(self) -> bool:
        return self.outer == self.inner == 1


@dataclass(frozen=True)
class Jet:
    """Directions carried forward along the graph.

    ``first``: [P, *shape], the derivative in each of P directions.
    ``second``: [*shape], the second derivatives along the directions, summed over them (the collapsed part of a forward
    Laplacian; Li et al. 2023, "Forward Laplacian", and Dangel et al. 2025, "Collapsing Taylor mode"); None where only
    first derivatives are asked for, or where they are all zero so far.
    """

    first: Tensor
    second: Tensor | None = None


#: For a step whose output ``number`` has its batch at ``place``: where the batch lies in each input (only inputs
#: that lead to the target are asked about). None: that input can't be shown to keep the samples apart.
Batch: TypeAlias = Callable[[Step, Place, int], Sequence[Place | None]]

#: Jets of the inputs (None for one that does not lead to the target) to the jets of the outputs, by number.
#: ``order`` is 1 or 2. Saved tensors are read from ``step.node`` as they are: attached where a graph is to be made.
Push: TypeAlias = Callable[[Step, Sequence[Jet | None], int], Mapping[int, Jet]]

#: Whether this very step can be pushed to that order (1 or 2): asked before anything is computed, so that a way with
#: one step that can't is not begun.  It reads shapes and saved scalars of the node, no tensor.
Pushes: TypeAlias = Callable[[Step, int], bool]

#: Which entries of one sample's target reach which entries of an input, [D, *shape] boolean, to the same of the
#: outputs; an empty mapping where that can't be told.  See NOTE [A pattern is of one sample] in nodes/reach.py.
Spread: TypeAlias = Callable[[Step, Sequence[Tensor | None]], Mapping[int, Tensor]]


@dataclass(frozen=True)
class Rule:
    """``batch``: keeps samples apart.  ``push``: derivatives forward.  ``spread``: which entry reaches which.

    ``pushes``: which of the kind's steps ``push`` can take; without it, all of them, to order 2.
    """

    batch: Batch
    push: Push | None = None
    spread: Spread | None = None
    pushes: Pushes | None = None

    def can_push(self, step: Step, order: int) -> bool:
        """Whether ``push`` carries this step's jets to that order.  Ask here: it counts in whether there is a push.

        >>> Rule(lambda step, place, number: []).can_push(None, 1)
        False
        """
        return self.push is not None and (self.pushes is None or self.pushes(step, order))


def aligned(step: Step, place: Place, into_shape: torch.Size, number: int = 0) -> Place | None:
    """Where the batch of an output lies in an input that was broadcast to it; None where it was broadcast over it.

    >>> from types import SimpleNamespace
    >>> step = SimpleNamespace(shape=lambda number=0: torch.Size([8, 3, 4]))
    >>> aligned(step, Place(1), torch.Size([3, 4]))
    Place(axis=0, outer=1, inner=1)
    >>> aligned(step, Place(0), torch.Size([3, 4])) is None
    True
    """
    shape = step.shape(number)
    axis = place.axis - len(shape) + len(into_shape)
    if axis < 0 or into_shape[axis] != shape[place.axis]:
        return None
    return Place(axis, place.outer, place.inner)
