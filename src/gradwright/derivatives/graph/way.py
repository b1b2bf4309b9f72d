"""The way from an output back to a target: the recorded nodes in between, and nothing else."""

from __future__ import annotations

from collections.abc import Collection, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from gradwright.derivatives.graph.target import Target, short_name
from gradwright.ground.torch_versions.nodes import output_metadata


# A way is walked at every call, so these two are made quickly: fields go straight into __dict__.
@dataclass(frozen=True, init=False)
class Into:
    """One input of a recorded operation.

    ``node``, ``number``: whose output it is (``node`` is None for a constant).  ``leads``: the target is behind it.
    """

    node: Any
    number: int
    leads: bool

    def __init__(self, node: Any, number: int, leads: bool) -> None:
        fields = self.__dict__
        fields["node"], fields["number"], fields["leads"] = node, number, leads

    @cached_property
    def shape(self) -> torch.Size:
        """Shape of the input.  Only of inputs that belong to the graph."""
        return torch.Size(output_metadata(self.node)[self.number].shape)

    @property
    def key(self) -> tuple[Any, int]:
        return self.node, self.number


@dataclass(frozen=True, eq=False, init=False)
class Step:
    """One recorded operation on the way: the node, and its inputs in the order of ``next_functions``."""

    node: Any
    inputs: tuple[Into, ...]

    def __init__(self, node: Any, inputs: tuple[Into, ...]) -> None:
        fields = self.__dict__
        fields["node"], fields["inputs"] = node, inputs

    @cached_property
    def name(self) -> str:
        return short_name(self.node)

    @cached_property
    def shapes(self) -> tuple[torch.Size, ...]:
        """Shapes of all that the operation put out; empty for an output that is no tensor."""
        return tuple(torch.Size(() if seen is None else seen.shape) for seen in output_metadata(self.node))

    def shape(self, number: int = 0) -> torch.Size:
        """Shape of what the operation put out."""
        return self.shapes[number]

    @cached_property
    def leading(self) -> tuple[tuple[int, Into], ...]:
        """The inputs behind which the target lies, with their places."""
        return tuple((place, into) for place, into in enumerate(self.inputs) if into.leads)


@dataclass(frozen=True, eq=False)
class Way:
    """Every recorded operation between ``output`` and ``target``, each once, those nearer to the output first.

    Topological: a step stands before all steps that it took its inputs from.  ``steps`` is empty where the output is
    the target itself.  ``found``: the output depends on the target.
    """

    output: Tensor
    target: Target
    steps: tuple[Step, ...]
    found: bool
    names: frozenset[str] = field(default=frozenset())

    @cached_property
    def coarsest(self) -> torch.dtype:
        """The real dtype of the lowest precision on the way, and thus of what comes out of it."""
        met = {self.output.dtype, self.target.dtype}
        met |= {seen.dtype for step in self.steps for seen in output_metadata(step.node) if seen is not None}
        return max((dtype.to_real() for dtype in met if dtype.is_floating_point or dtype.is_complex), key=_eps)


def _eps(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps


def find_way(output: Tensor, target: Target) -> Way:
    """The steps between; cost: a walk over the graph behind ``output``, a microsecond or two a node."""
    goal = (target.edge.node, target.edge.output_nr)
    start = output.grad_fn
    if start is None:
        found = output.requires_grad and target.tensor is output
        return Way(output, target, (), found)
    if (start, output.output_nr) == goal:
        return Way(output, target, (), True)
    steps = steps_between(start, {goal}, closed=(goal[0],))
    return Way(output, target, steps, bool(steps), frozenset(step.name for step in steps))


def steps_between(start: Any, goals: Set[tuple[Any, int]], closed: Collection[Any] = ()) -> tuple[Step, ...]:
    """Every recorded operation from ``start`` back that leads to a goal, a node with the number of its output.

    Topological: a step stands before all steps that it took its inputs from.  Empty where ``start`` leads to none.
    ``closed``: nodes that are not looked behind.
    """
    leads: dict[Any, bool] = dict.fromkeys((None, *closed), False)
    after: list[Step] = []
    waiting: list[tuple[Any, Any]] = [(start, None)]  # a node, and what it was computed from once that is known
    while waiting:
        node, known = waiting.pop()
        if known is not None:
            inputs = []
            reached = False
            for into in known:
                behind = leads[into[0]] or into in goals
                reached = reached or behind
                inputs.append(Into(into[0], into[1], behind))
            if reached:
                leads[node] = True
                after.append(Step(node, tuple(inputs)))
        elif node not in leads:
            leads[node] = False  # until its inputs are known; a graph has no cycles
            known = node.next_functions
            if known:
                waiting.append((node, known))
                waiting += [(following, None) for following, _ in known if following not in leads]
    after.reverse()
    return tuple(after)
