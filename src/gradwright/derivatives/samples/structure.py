"""Do the samples of a batch meet between target and output? What the graph's structure alone can prove."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gradwright.derivatives.graph.way import Step, Way
from gradwright.derivatives.nodes import Place, rule_of


@dataclass(frozen=True)
class Structure:
    """``proved``: no step on the way lets one sample into another.  ``open``: the steps that this hangs on.

    ``proved`` speaks of recorded operations. A hook is no recorded operation: see ``engine.hooks_heard``.
    ``places``: where the batch lies in each value that could be followed, by node and number of its output.
    """

    proved: bool
    open: tuple[Step, ...]
    places: Mapping[tuple[Any, int], Place] = field(default_factory=dict)


def examine_structure(way: Way, output_axis: int, target_axis: int) -> Structure:
    """Follow the batch from the output back to the target, step by step.

    Cost: some microseconds a step; no tensor is touched.
    """
    if not way.steps:  # the output is the target
        return Structure(output_axis == target_axis, ())
    target = way.target.edge
    places: dict[Any, dict[int, Place]] = {way.output.grad_fn: {way.output.output_nr: Place(output_axis)}}
    stuck: dict[Step, None] = {}
    for step in way.steps:
        rule = rule_of(step.name)
        if rule is None:
            stuck[step] = None
            continue
        for number, place in places.get(step.node, _NOWHERE).items():
            back = rule.batch(step, place, number)
            for index, into in step.leading:
                found = back[index]
                if found is None or places.setdefault(into.node, {}).setdefault(into.number, found) != found:
                    stuck[step] = None
    arrived = places.get(target.node, _NOWHERE).get(target.output_nr)
    flat = {(node, number): place for node, numbers in places.items() for number, place in numbers.items()}
    return Structure(not stuck and arrived == Place(target_axis), tuple(stuck), flat)


_NOWHERE: Mapping[int, Place] = {}
