"""The way from an output back to a target: the recorded nodes in between, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from gradwright.derivatives.target import Target, short_name


@dataclass(frozen=True)
class Into:
    """One input of a recorded operation.

    ``node``, ``number``: whose output it is (``node`` is None for a constant).  ``leads``: the target is behind it.
    """

    node: Any
    number: int
    leads: bool

    @property
    def shape(self) -> torch.Size:
        """Shape of the input.  Only of inputs that belong to the graph."""
        return torch.Size(self.node._input_metadata[self.number].shape)

    @property
    def key(self) -> tuple[Any, int]:
        return self.node, self.number


@dataclass(frozen=True, eq=False)
class Step:
    """One recorded operation on the way: the node, and its inputs in the order of ``next_functions``."""

    node: Any
    inputs: tuple[Into, ...]

    @cached_property
    def name(self) -> str:
        return short_name(self.node)

    def shape(self, number: int = 0) -> torch.Size:
        """Shape of what the operation put out."""
        return torch.Size(self.node._input_metadata[number].shape)

    @property
    def leading(self) -> Iterator[tuple[int, Into]]:
        """The inputs behind which the target lies, with their places."""
        return ((place, into) for place, into in enumerate(self.inputs) if into.leads)


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


def find_way(output: Tensor, target: Target) -> Way:
    """The steps between; cost: a walk over the graph behind ``output``, a microsecond or two a node."""
    goal = (target.edge.node, target.edge.output_nr)
    start = output.grad_fn
    if start is None:
        found = output.requires_grad and target.tensor is output
        return Way(output, target, (), found)
    if (start, output.output_nr) == goal:
        return Way(output, target, (), True)
    leads: dict[Any, bool] = {None: False, goal[0]: False}
    after: list[Step] = []
    waiting: list[tuple[Any, bool]] = [(start, False)]
    while waiting:
        node, ready = waiting.pop()
        if ready:
            inputs = tuple(
                Into(following, number, (following, number) == goal or leads[following])
                for following, number in node.next_functions
            )
            leads[node] = any(into.leads for into in inputs)
            if leads[node]:
                after.append(Step(node, inputs))
        elif node not in leads:
            leads[node] = False  # until its inputs are known; a graph has no cycles
            waiting.append((node, True))
            waiting += [(following, False) for following, _ in node.next_functions if following not in leads]
    steps = tuple(reversed(after))
    return Way(output, target, steps, leads.get(start, False), frozenset(step.name for step in steps))
