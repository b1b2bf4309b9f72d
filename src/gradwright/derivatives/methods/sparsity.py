"""Which entries of one sample's target can reach which entries of its output, told by the graph's structure alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gradwright.derivatives.graph.request import Request
from gradwright.derivatives.graph.way import Into, Step
from gradwright.derivatives.nodes import Place, rule_of
from gradwright.derivatives.samples.structure import Structure, examine_structure

#: With fewer rows or columns than this, colouring saves too little to look for a pattern.
FEW = 8


def structural_sparsity(request: Request, structure: Structure | None = None) -> Tensor | None:
    """The pattern of one sample's Jacobian, [K, D] boolean on the output's device: False is zero for sure.

    None where a step tells no pattern, where the samples aren't proved to stay apart, where nothing would be gained (K
    or D below ``FEW``, or some step through which everything reaches everything).  It follows indicators of the D
    entries forward, through the steps' rules; values are never looked at, so what a ReLU or a gate does at this call
    does not count (NOTE [A pattern is of one sample]).
    Cost: an operation or two per step on D booleans for each entry of one sample, so about D / (4 B) of a vjp in bytes.
    ``structure``: what ``examine_structure`` said, where it is known already.

    >>> from gradwright.derivatives.graph.request import read_request
    >>> z = torch.ones(2, 8, requires_grad=True)
    >>> pattern = structural_sparsity(read_request(z.tanh(), z, 0, False))
    >>> pattern is not None and torch.equal(pattern, torch.eye(8, dtype=torch.bool))
    True
    """
    if request.target_axis is None or min(request.row_count, request.column_count) < FEW or not request.samples:
        return None
    if request.column_count > request.samples * min(request.row_count, request.column_count):
        return None  # the pattern would cost as much as a quarter of the Jacobian
    if not request.way.steps:  # the output is the target
        return torch.eye(request.row_count, dtype=torch.bool, device=request.output.device)
    rules = [rule_of(name) for name in request.way.names]
    if any(rule is None or rule.spread is None for rule in rules):
        return None
    structure = structure or examine_structure(request.way, 0, request.target_axis)
    if not structure.proved:
        return None
    columns, itemsize = request.column_count, request.target.dtype.itemsize
    block = max(64, request.samples * itemsize)  # no more bytes than the values themselves take
    parts = []
    for first in range(0, columns, block):
        part = _followed(request, structure, first, min(first + block, columns))
        if part is None:
            return None
        parts.append(part)
    pattern = torch.cat(parts).T
    in_a_column, in_a_row = int(pattern.sum(0).max()), int(pattern.sum(1).max())
    gains = 2 * in_a_column <= request.row_count or 2 * in_a_row <= columns  # no fewer colours than these
    return pattern if gains else None


def _followed(request: Request, structure: Structure, first: int, last: int) -> Tensor | None:
    """Columns ``first`` to ``last`` of the pattern, [last - first, K]."""
    target, output = request.target, request.way.output
    goal, end = (target.edge.node, target.edge.output_nr), (output.grad_fn, output.output_nr)
    unit = torch.zeros(last - first, request.column_count, dtype=torch.bool, device=output.device)
    unit.diagonal(first).fill_(True)
    shape = _of_one_sample(target.shape, structure.places[goal])
    patterns: dict[tuple[Any, int], Tensor] = {goal: unit.reshape(-1, *shape)}
    users = Counter(into.key for step in request.way.steps for _, into in step.leading)
    users[end] += 1
    for step in reversed(request.way.steps):
        rule = rule_of(step.name)
        assert rule is not None and rule.spread is not None
        reach = [patterns[into.key] if into.leads else None for into in step.inputs]
        made = rule.spread(_seen_by_one_sample(step, structure.places), reach)
        if not made:
            return None
        for _, into in step.leading:
            users[into.key] -= 1
            if not users[into.key]:
                del patterns[into.key]
        patterns |= {(step.node, number): pattern for number, pattern in made.items() if users[step.node, number]}
        if len(patterns) == 1 and _dense(next(iter(patterns.values()))):
            return None  # everything goes through this one value, and everything has reached all of it
    return patterns[end].reshape(last - first, request.row_count)


def _dense(pattern: Tensor) -> bool:
    return bool(pattern[0].all()) and bool(pattern.all())


def _of_one_sample(shape: torch.Size, place: Place) -> torch.Size:
    return torch.Size((*shape[: place.axis], place.outer * place.inner, *shape[place.axis + 1 :]))


@dataclass(frozen=True)
class _SampleInto(Into):
    """An input as one sample sees it."""

    place: Place

    @property
    def shape(self) -> torch.Size:
        return _of_one_sample(super().shape, self.place)


@dataclass(frozen=True, eq=False)
class _SampleStep(Step):
    """A step as one sample sees it."""

    places: Mapping[tuple[Any, int], Place]

    def shape(self, number: int = 0) -> torch.Size:
        return _of_one_sample(super().shape(number), self.places[self.node, number])


def _seen_by_one_sample(step: Step, places: Mapping[tuple[Any, int], Place]) -> Step:
    inputs = tuple(
        _SampleInto(into.node, into.number, True, places[into.key]) if into.leads else into for into in step.inputs
    )
    return _SampleStep(step.node, inputs, places)
