"""Graphs that outlive their step: what is summed or collected with its graph, hidden states that are never cut.

NOTE [tokens]: a node's ``metadata`` is a dict that lives and dies with the node, whoever holds it: a tensor in a list
or another node. An object of ours is put there, at the node of what is differentiated and at the farthest node behind
it that is newer than the last step, and only a weak reference to it is kept: while the object lives, so does the graph
of that step. In a loop that lets go of its graphs none of an earlier step is alive when the next backward begins, but
for what the loop's own variables hold of the last one. A node that already has a token (what was computed once, before
the loop) is no graph of a step.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from gradwright.doctor.observe.looker import Looker, Surroundings
from gradwright.doctor.observe.training.holders import Held, grown_by, in_sight, tensors_in
from gradwright.doctor.session.facts import Fact, GraphsKept
from gradwright.doctor.session.facts.flow import MANY_KEPT
from gradwright.doctor.session.model import Subject
from gradwright.doctor.session.place import Location
from gradwright.ground.graphs import nodes_behind
from gradwright.ground.torch_versions.engine import SEQUENCE, sequence_number
from gradwright.ground.torch_versions.levels import TRANSFORMS, are_functorch_transforms_active

_KEY = "gradwright: graph of a step"
_STEPS = 64  # that are looked at, of each site
_MOST_NODES = 20_000
_DEPTH = 2000


class _Token:
    """Lives in a node's metadata."""

    __slots__ = ("__weakref__", "step")

    def __init__(self, step: int) -> None:
        self.step = step


@dataclass
class _Site:
    """A call site of ``backward``: ``tokens`` of its steps, and what was found out."""

    subject: Subject
    clock: int = -1
    newest: int = -1  # the number that autograd gave to the node of the last step's root
    steps: int = 0
    tokens: list[weakref.ref[_Token]] = field(default_factory=list)
    kept: int = 0
    history: list[tuple[int, int]] = field(default_factory=list)
    nodes: list[tuple[int, int]] = field(default_factory=list)  # behind the variable
    of_root: list[tuple[int, int]] = field(default_factory=list)
    searched: bool = False
    from_root: bool = False
    variable: str = ""
    how: str = ""
    text: str = ""
    location: Location | None = None


class KeptGraphs(Looker):
    """Cost: a walk along one path of the graph at each of the first steps, and no more where nothing is kept."""

    looks_at = "graphs that are kept from step to step"
    needs = (SEQUENCE, TRANSFORMS)

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self._sites: dict[str, _Site] = {}

    def before_backward(self, site: Subject, root: Tensor | None) -> None:
        node = root.grad_fn if root is not None else None
        if node is None or are_functorch_transforms_active():
            return
        seen = self._sites.setdefault(site.id, _Site(site))
        if seen.clock == self.clock.steps or seen.steps >= _STEPS:
            return
        seen.clock = self.clock.steps
        seen.steps += 1
        alive = _steps_of(seen)
        seen.kept = max(seen.kept, len(alive))
        if len(alive) >= MANY_KEPT or (len(alive) > 1 and _is_power_of_two(seen.steps)):
            self._look(seen, node, len(alive))
        places = node, _farthest(node, seen.newest)
        seen.tokens += [reference for one in places if (reference := _marked(one, seen.steps))]
        seen.newest = max(seen.newest, sequence_number(node))

    def _look(self, seen: _Site, root: Any, alive: int) -> None:
        first = alive >= MANY_KEPT and not seen.searched
        if first or (alive >= MANY_KEPT and not seen.variable and _is_power_of_two(seen.steps)):
            seen.searched = True
            with self.apart():
                self._find_holder(seen, root)
        if _is_power_of_two(seen.steps):
            seen.history.append((seen.steps, alive))
            seen.of_root.append((seen.steps, _count([root])))
        if seen.variable and not seen.from_root and (first or _is_power_of_two(seen.steps)):
            with self.apart():
                seen.nodes += [(seen.steps, count) for count in _nodes_of(seen.variable)]

    def _find_holder(self, seen: _Site, root: Any) -> None:
        numbers = _steps_of(seen)
        seen.from_root = len(_steps_behind([root]) & numbers) >= MANY_KEPT
        named: list[tuple[Held, str]] = []
        for held in in_sight():
            if isinstance(held.value, Tensor):
                node = held.value.grad_fn
                if node is not None and len(_steps_behind([node]) & numbers) >= MANY_KEPT - 1:
                    named.append((held, "tensor"))
            elif tensors := [one for one in tensors_in(held.value) if one.grad_fn is not None]:
                nodes = [one.grad_fn for one in tensors]
                if len(_steps_behind(nodes) & numbers) >= MANY_KEPT - 1:
                    named.append((held, "collection"))
        for held, how in named:
            growing = grown_by(held, collection=how == "collection")
            if growing is not None:
                seen.variable, seen.how = held.name, how
                seen.location, seen.text = growing.location, growing.text
                break
        else:
            if named:
                seen.variable, seen.how = named[0][0].name, named[0][1]
                return
            gc.collect()  # cycles that nobody has collected yet are no fault of the loop's
            if len(_steps_of(seen)) < MANY_KEPT:
                seen.tokens, seen.kept, seen.searched = [], 0, False

    def facts(self) -> list[Fact]:
        return [
            GraphsKept(
                id=f"graphs kept {seen.subject.id}",
                subject=seen.subject.id,
                steps=seen.steps,
                kept=seen.kept,
                history=tuple(seen.history),
                nodes=tuple(seen.of_root if seen.from_root else seen.nodes),
                from_root=seen.from_root,
                variable=seen.variable,
                how=seen.how,
                text=seen.text,
                location=seen.location,
            )
            for seen in self._sites.values()
            if seen.kept >= MANY_KEPT
        ]


def _marked(node: Any, step: int) -> weakref.ref[_Token] | None:
    """A token in the node's metadata; None where one is already."""
    if _KEY in node.metadata:
        return None
    token = _Token(step)
    node.metadata[_KEY] = token
    return weakref.ref(token)


def _farthest(node: Any, newest: int) -> Any:
    """Along the graph, always to the node that was made first since the last step: the beginning of this one."""
    for _ in range(_DEPTH):
        behind = [(sequence_number(one), one) for one, _ in node.next_functions if one is not None]
        behind = [(made, one) for made, one in behind if made > newest and not hasattr(one, "variable")]
        if not behind:
            break
        node = min(behind, key=lambda pair: pair[0])[1]
    return node


def _steps_of(seen: _Site) -> set[int]:
    """The steps with a graph that is alive."""
    tokens = [reference() for reference in seen.tokens]
    return {token.step for token in tokens if token is not None}


def _steps_behind(nodes: Iterable[Any]) -> set[int]:
    """The steps whose tokens are met on a walk; nearest nodes first, so that a sum of many graphs shows them soon."""
    found = set()
    for node in nodes_behind(nodes, most=_MOST_NODES):
        token = node.metadata.get(_KEY)
        if token is not None:
            found.add(token.step)
    return found


def _count(nodes: Iterable[Any]) -> int:
    return sum(1 for _ in nodes_behind(nodes, most=_MOST_NODES))


def _nodes_of(variable: str) -> list[int]:
    """How many nodes a variable's tensors reach now; nothing where it is out of sight."""
    for held in in_sight():
        if held.name == variable:
            values = [held.value] if isinstance(held.value, Tensor) else tensors_in(held.value)
            return [_count([one.grad_fn for one in values if one.grad_fn is not None])]
    return []


def _is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0
