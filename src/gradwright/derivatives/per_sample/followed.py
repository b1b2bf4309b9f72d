"""The batch, followed from the losses back to where the parameters come in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from torch.autograd.graph import get_gradient_edge

from gradwright.derivatives.graph.way import Into, Step, steps_between
from gradwright.derivatives.nodes import Place, rule_of
from gradwright.derivatives.per_sample.asked import Asked
from gradwright.derivatives.per_sample.boundary import Make, boundary_of

#: A recorded value: a node, and which of its outputs.
Key: TypeAlias = tuple[Any, int]


@dataclass(frozen=True, eq=False)
class Crossing:
    """A value that the samples share, entering a step whose output keeps them apart.

    ``source``: that output, whose batch lies at ``place``; ``make`` turns its cotangent into [B, *into].
    """

    step: Step
    number: int
    place: Place
    into: Into
    make: Make

    @property
    def source(self) -> Key:
        return self.step.node, self.number


@dataclass(eq=False)
class Followed:
    """What is known of the way from the losses to the parameters.

    ``steps``: by node.  ``crossings``: all of them, those of one source in a row.
    ``owned``: parameters of which each sample has its own part.
    ``through``: the nodes that have inputs with the batch, behind which there is more.
    ``open``: steps through which the batch was followed by assumption only: same axis, same size.
    ``lost``: a step behind which nothing is known.  ``meeting``: a step whose output is one sample's own for some of
    the steps that use it, and every sample's for another.
    """

    steps: dict[Any, Step]
    crossings: list[Crossing] = field(default_factory=list)
    owned: dict[Key, Place] = field(default_factory=dict)
    through: set[Any] = field(default_factory=set)
    open: list[Step] = field(default_factory=list)
    lost: Step | None = None
    meeting: Step | None = None


def follow(asked: Asked) -> Followed:
    """Follow the batch.  Cost: some microseconds a step; no tensor is touched."""
    start = get_gradient_edge(asked.losses)
    goals = [(target.edge.node, target.edge.output_nr) for target in asked.targets]
    found = Followed({step.node: step for step in steps_between(start.node, set(goals))})
    own: dict[Any, dict[int, Place]] = {start.node: {start.output_nr: Place(0)}}
    shared: set[Any] = set()
    for node, step in found.steps.items():
        mine = own.get(node)
        if node in shared:
            if mine:
                found.meeting = step
                return found
            shared.update(into.node for _, into in step.leading)
            continue
        for number, place in (mine or {}).items():
            _pass(step, number, place, asked.samples, found, own, shared)
            if found.lost or found.meeting:
                return found
    for key in goals:
        if key[1] not in own.get(key[0], {}):
            continue
        if key[0] in shared or found.open:
            found.lost = found.open[0] if found.open else _user(found, key)
        found.owned[key] = own[key[0]][key[1]]
    return found


def _pass(
    step: Step,
    number: int,
    place: Place,
    samples: int,
    found: Followed,
    own: dict[Any, dict[int, Place]],
    shared: set[Any],
) -> None:
    """One step: where the batch lies in its inputs, or what crosses into it there."""
    rule, boundary = rule_of(step.name), boundary_of(step.name)
    back = rule.batch(step, place, number) if rule else None
    for index, into in step.leading:
        before: Place | None = back[index] if back else None
        if before is None:
            make = boundary(step, index, place, samples) if boundary else None
            if make is not None:
                found.crossings.append(Crossing(step, number, place, into, make))
                shared.add(into.node)
                continue
            if step not in found.open:
                found.open.append(step)
            before = _assumed(step, number, place, into)
            if before is None:
                found.lost = step
                return
        found.through.add(step.node)
        known = own.setdefault(into.node, {}).setdefault(into.number, before)
        if known != before:
            found.meeting = step
            return


def _assumed(step: Step, number: int, place: Place, into: Into) -> Place | None:
    out, shape = step.shape(number), into.shape
    same = place.axis < len(shape) and shape[place.axis] == out[place.axis]
    return place if same else None


def _user(found: Followed, key: Key) -> Step:
    return next(step for step in found.steps.values() if any(into.key == key for into in step.inputs))
