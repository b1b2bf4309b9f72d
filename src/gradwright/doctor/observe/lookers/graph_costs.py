"""What a graph costs more than it must: see ``costly_nodes``. Found in a few steps, placed in one, tried at the end."""

from __future__ import annotations

import linecache
import time
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from gradwright.doctor.observe.guard import guarded
from gradwright.doctor.observe.looker import Looker, Surroundings
from gradwright.doctor.observe.training.costly_nodes import Costly, costly
from gradwright.doctor.observe.training.costly_trials import seconds_of
from gradwright.doctor.observe.training.op_places import OperationPlaces
from gradwright.doctor.observe.training.row_branches import loop_around
from gradwright.doctor.session.facts import CostlyGraph, Fact
from gradwright.doctor.session.model import Subject
from gradwright.doctor.session.place import Location
from gradwright.ground.torch_versions.engine import SEQUENCE
from gradwright.ground.torch_versions.levels import TRANSFORMS, are_functorch_transforms_active
from gradwright.ground.torch_versions.modes import FUNCTIONS
from gradwright.ground.torch_versions.nodes import NODES

_LOOKS = 64  # calls of a site, of which one in twice as many is looked at
_PLACING = 3  # steps in which a place is looked for

_Key = tuple[str, tuple[int, ...], tuple[int, ...]]


@dataclass
class _Cost:
    """One pattern at one site; ``what`` holds no node."""

    what: Costly
    first: int
    looks: int = 1
    location: Location | None = None
    text: str = ""
    seconds: float = 0.0
    tried: bool = False


@dataclass
class _Site:
    subject: Subject
    calls: int = 0
    arrived: tuple[float, float] = (0.0, 0.0)
    apart: list[tuple[float, float]] = field(default_factory=list)
    costs: dict[_Key, _Cost] = field(default_factory=dict)
    placing: int = 0


class GraphCostLooker(Looker):
    """Cost: a walk over the graph at a few steps; if something is found, a step under a function mode and a trial."""

    looks_at = "operations whose backward costs more than it must"
    needs = (SEQUENCE, TRANSFORMS, FUNCTIONS, NODES)

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self._sites: dict[str, _Site] = {}
        self._places = OperationPlaces(self.on_fault)
        self._placed: _Site | None = None

    def remove(self) -> None:
        self._places.stop()

    def before_backward(self, site: Subject, root: Tensor | None) -> None:
        seen = self._sites.setdefault(site.id, _Site(site))
        placed = self._placed is seen
        if placed:
            self._places.stop()
            self._placed = None
        seen.calls += 1
        if seen.calls > 1 and not placed and len(seen.apart) < _LOOKS:
            (wall, cpu), (wall_then, cpu_then) = _now(), seen.arrived
            seen.apart.append((wall - wall_then, cpu - cpu_then))
        node = root.grad_fn if root is not None else None
        is_look = seen.calls <= _LOOKS and not seen.calls & (seen.calls - 1)
        if node is not None and (placed or is_look) and not are_functorch_transforms_active():
            self._look(seen, node, placed)
        seen.arrived = _now()

    def after_backward(self, site: Subject) -> None:
        seen = self._sites.get(site.id)
        if seen is None or self._placed is not None or seen.placing >= _PLACING:
            return
        if any(cost.location is None for cost in seen.costs.values()) and self._places.start():
            seen.placing += 1
            self._placed = seen

    def before_step(self, optimizer: Optimizer, subject: Subject) -> None:
        if self._placed is None:
            self._places.stop()  # inside of the backward, an operation itself, it could not be left

    def _look(self, seen: _Site, root: Any, placed: bool) -> None:
        for found in costly(root):
            key: _Key = (found.kind, found.shape, found.other)
            cost = seen.costs.get(key)
            if cost is None:
                cost = seen.costs[key] = _Cost(replace(found, node=None), seen.calls)
            else:
                cost.looks += 1
            if placed and cost.location is None:
                operation = self._places.of(found.node)
                if operation is not None:
                    cost.location = operation.location
                    cost.text = _text_at(operation.code.co_filename, operation.location)

    def facts(self) -> list[Fact]:
        known: list[Fact] = []
        for seen in self._sites.values():
            for number, cost in enumerate(seen.costs.values()):
                if self.clock.over and not cost.tried:
                    cost.tried = True
                    cost.seconds = guarded(seconds_of, self.on_fault)(cost.what) or 0.0
                known.append(
                    CostlyGraph(
                        id=f"costly graph {number} {seen.subject.id}",
                        subject=seen.subject.id,
                        pattern=cost.what.kind,
                        count=cost.what.count,
                        shape=cost.what.shape,
                        other=cost.what.other,
                        dim=cost.what.dim,
                        bytes=cost.what.bytes,
                        looks=cost.looks,
                        first=cost.first,
                        seconds=cost.seconds,
                        step_seconds=min((wall for wall, _ in seen.apart), default=0.0),
                        step_cpu_seconds=min((cpu for _, cpu in seen.apart), default=0.0),
                        location=cost.location,
                        text=cost.text,
                        operations=cost.what.operations,
                        loop=self._loop(cost),
                    )
                )
        return known

    def _loop(self, cost: _Cost) -> Location | None:
        if not self.clock.over or cost.what.kind != "rows" or cost.location is None:
            return None
        return guarded(loop_around, self.on_fault)(cost.location)


def _now() -> tuple[float, float]:
    """Seconds of the wall's clock, and of this thread's work, which a busy machine leaves as they are."""
    return time.perf_counter(), time.thread_time()


def _text_at(file: str, at: Location) -> str:
    """The expression, where it stands on one line."""
    line = linecache.getline(file, at.line)
    return line[at.column - 1 : at.end_column - 1] if at.end_line == at.line else ""
