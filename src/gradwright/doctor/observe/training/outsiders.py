"""Parameters that losses reach, in no optimizer: whose they are, how they stand to what is optimized, do they move?"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch.optim import Optimizer

from gradwright.doctor.observe.training.owners import Household, Owned, called, household, name_in_frame, parameters_of
from gradwright.doctor.session.facts import Fact
from gradwright.doctor.session.facts.parameters import OutsideParameters, Standing
from gradwright.doctor.session.model import Subject
from gradwright.doctor.session.place import Location

_SCANS = 3
_ELEMENTS = 16
_SAMPLED = 16  # parameters of a group whose values are compared
_NAMED = 16
_STEPS = 2  # that a group is watched for at the least
_CHECKED = 4  # of them, in which each is asked whether it moved; then at the looks


@dataclass
class Reached:
    """A leaf of a loss's graph; ``place``: how near the root it was, in the order of the walk;
    ``seen_at``: the number of the last backward that was seen to reach it."""

    parameter: weakref.ref[Tensor]
    place: int
    seen_at: int = 0


class Use(Protocol):
    """Of an optimizer: whom facts are about, and where it was made."""

    subject: Subject
    made_at: Location | None


@dataclass
class _Group:
    """Outsiders of one module."""

    names: list[str]
    parameters: list[weakref.ref[Tensor]]
    values: list[Tensor]
    module: str
    standing: Standing
    holder: str
    use: Use
    steps: int = 0

    def moves(self) -> bool:
        for reference, before in zip(self.parameters, self.values, strict=False):
            parameter = reference()
            if parameter is not None and not (parameter.requires_grad and torch.equal(sample_of(parameter), before)):
                return True
        return False


@dataclass(frozen=True)
class _Scene:
    """What is known at one look. ``idle``: nothing that the stepping optimizer holds has a gradient.
    ``once``: what an optimizer held before, so that it is left out on purpose: layers that are trained in turn."""

    house: Household
    outside: Mapping[int, Reached]
    reached: Mapping[int, Reached]
    held: Collection[int]
    once: Set[int]
    without_gradient: set[int]
    idle: bool


@dataclass
class Outsiders:
    """``loaded``: modules whose ``load_state_dict`` was called, which have learnt elsewhere."""

    loaded: Iterable[Module]
    _groups: list[_Group] = field(default_factory=list)
    _scans: int = 0
    _once: dict[int, weakref.ref[Tensor]] = field(default_factory=dict)  # held by an optimizer, at a look

    def step(self) -> None:
        for group in self._groups:
            group.steps += 1
        if any(group.steps <= _CHECKED for group in self._groups):
            self._groups = [group for group in self._groups if not group.moves()]

    def look(
        self,
        reached: Mapping[int, Reached],
        uses: Mapping[Optimizer, Use],
        without_gradient: set[int],
        optimizer: Optimizer,
    ) -> None:
        """Group what is reached and held by none of the optimizers, a few times in a run."""
        self._groups = [group for group in self._groups if not group.moves()]
        held = {id(parameter) for one in uses for parameter in parameters_of(one)}
        self._once.update((id(one), weakref.ref(one)) for held_by in uses for one in parameters_of(held_by))
        outside = {key: one for key, one in reached.items() if key not in held and _trains(one.parameter())}
        known = {id(reference()) for group in self._groups for reference in group.parameters}
        named = any(type(one.parameter()) is Parameter for key, one in outside.items() if key not in known)
        if not (named or (outside.keys() - known and self._scans == 0)) or self._scans >= _SCANS:
            return
        self._scans += 1
        house = household()
        held |= house.held()
        outside = {key: one for key, one in outside.items() if key not in held}
        idle = all(parameter.grad is None for parameter in parameters_of(optimizer))
        once = {key for key, one in outside.items() if key in self._once and self._once[key]() is one.parameter()}
        scene = _Scene(house, outside, reached, held, once, without_gradient, idle)
        self._groups = list(self._grouped(scene, uses[optimizer]))

    def _grouped(self, scene: _Scene, use: Use) -> Iterable[_Group]:
        owned = scene.house.owned
        if not any(key in owned for key in scene.held) and not scene.without_gradient:
            return  # an input is optimized, and the modules stay as they are
        by_root: dict[int, dict[int, Owned]] = {}
        for key, one in scene.outside.items():
            if (owner := owned.get(key)) is not None:
                by_root.setdefault(id(owner.root), {})[key] = owner
            elif type(parameter := one.parameter()) is Parameter and (name := name_in_frame(parameter)):
                yield _group(scene, use, {key: name}, "", "alone", "")
        for members in by_root.values():
            root = next(iter(members.values())).root
            hidden = {key: owner for key, owner in members.items() if owner.holder}
            plain = {key: owner for key, owner in members.items() if not owner.holder}
            for part in (hidden, plain):
                standing = self._standing(part, root, scene) if part else None
                if standing is not None:
                    names = {key: part[key].name.removeprefix("_orig_mod.") for key in owned if key in part}
                    holder = next(iter(part.values())).holder.partition("[")[0]
                    yield _group(scene, use, names, called(root), standing, holder)

    def _standing(self, part: Mapping[int, Owned], root: Module, scene: _Scene) -> Standing | None:
        """``None`` where they are left out on purpose, as far as can be seen."""
        owned = scene.house.owned
        loaded = any(module is root or any(module is one for one in root.modules()) for module in self.loaded)
        if next(iter(part.values())).holder:
            return None if loaded or not any(owner.module.training for owner in part.values()) else "unregistered"
        if scene.idle or any(key not in owned for key in scene.without_gradient):
            return "replaced"
        once = part.keys() <= scene.once
        inside = [key for key, owner in owned.items() if owner.root is root and key in scene.held]
        if inside:
            if loaded:
                return "pretrained"
            if once:
                return "formerly"
            places = [scene.reached[key].place for key in inside if key in scene.reached]
            nearest = min(scene.reached[key].place for key in part)
            return "upstream" if places and nearest > max(places) else "beside"
        copies = (same_shapes(root, other) for other in scene.house.roots if other is not root)
        if loaded or not root.training or any(copies):
            return None
        return "formerly" if once else "alone"

    def facts(self) -> list[Fact]:
        return [
            OutsideParameters(
                id=f"outside {number} {group.use.subject.id}",
                subject=group.use.subject.id,
                names=tuple(group.names[:_NAMED]),
                count=len(group.names),
                module=group.module,
                standing=group.standing,
                steps=group.steps,
                holder=group.holder,
                made_at=group.use.made_at,
            )
            for number, group in enumerate(self._groups)
            if group.steps >= _STEPS and not group.moves()
        ]


def _group(scene: _Scene, use: Use, names: Mapping[int, str], module: str, standing: Standing, holder: str) -> _Group:
    ones = [scene.outside[key] for key in names]
    alive = [parameter for one in ones[:_SAMPLED] if (parameter := one.parameter()) is not None]
    return _Group(
        names=list(names.values()),
        parameters=[one.parameter for one in ones],
        values=[sample_of(parameter) for parameter in alive],
        module=module,
        standing=standing,
        holder=holder,
        use=use,
    )


def sample_of(parameter: Tensor) -> Tensor:
    return parameter.detach().reshape(-1)[:_ELEMENTS].clone()


def _trains(parameter: Tensor | None) -> bool:
    return parameter is not None and parameter.requires_grad


def same_shapes(one: Module, other: Module) -> bool:
    """A copy of another module (a target, an average, a teacher) is moved by nobody's gradient."""
    return type(one) is type(other) and [p.shape for p in one.parameters()] == [p.shape for p in other.parameters()]
