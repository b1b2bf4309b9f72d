"""Do the samples of a batch meet between target and output? What the graph's structure alone can prove."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gradwright.derivatives.nodes import Place, rule_of
from gradwright.derivatives.way import Step, Way


@dataclass(frozen=True)
class Structure:
    """``proved``: no step on the way lets one sample into another.  ``open``: the steps that this hangs on.

    ``proved`` speaks of recorded operations. A hook is no recorded operation: see ``engine.hooks_spoke``.
    """

    proved: bool
    open: tuple[Step, ...]


def examine_structure(way: Way, output_axis: int, target_axis: int) -> Structure:
    """Follow the batch from the output back to the target, step by step.

    Cost: some microseconds a step; no tensor is touched.
    """
    goal = (way.target.edge.node, way.target.edge.output_nr)
    places: dict[tuple[Any, int], Place] = {(way.output.grad_fn, way.output.output_nr): Place(output_axis)}
    stuck: list[Step] = []
    for step in way.steps:
        rule = rule_of(step.name)
        here = {key[1]: place for key, place in places.items() if key[0] is step.node}
        if rule is None:
            stuck.append(step)
            continue
        for number, place in here.items():
            back = rule.batch(step, place, number)
            for index, into in step.leading:
                found = back[index]
                if found is None or places.setdefault(into.key, found) != found:
                    stuck.append(step)
    proved = not stuck and places.get(goal) == Place(target_axis)
    return Structure(proved, tuple(dict.fromkeys(stuck)))
