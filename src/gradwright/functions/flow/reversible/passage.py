"""The way through the network, without a graph, and what it leaves for the way back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Module

from gradwright.errors import UsageError
from gradwright.functions.flow.reversible.reconstruction import Extent, Sampler
from gradwright.functions.flow.reversible.replay import Autocast, Held, Holdings, Table, exclusive, replaced
from gradwright.functions.flow.reversible.step import Step
from gradwright.ground.random_states import RandomState, generator_devices
from gradwright.ground.torch_versions.tensors import version_of


@dataclass(frozen=True, slots=True)
class Visit:
    """What a step's forward leaves for its way back.

    ``standing``: where the step's network holds which of the saved tensors; autograd guards those against changes.
    ``changed``: copies of buffers from before the step that are something else by now. ``random``: the generators
    before the step, if it drew.
    """

    step: Step
    modules: list[Module]
    modes: tuple[bool, ...]
    standing: list[tuple[Table, str, int]]
    changed: list[Held]
    random: RandomState | None


@dataclass(frozen=True, slots=True)
class Before:
    """A buffer as it was before a step: itself, its place, its version, and a copy."""

    held: Held
    version: int
    copy: Tensor
    running: bool

    def is_gone(self) -> bool:
        """Is it something else by now? See NOTE [running statistics]."""
        table, name, buffer = self.held
        return self.running or version_of(buffer) != self.version or table.get(name) is not buffer


@dataclass(frozen=True)
class Plan:
    """What a call is told beside its tensors. ``learnt``: the parameters as they stand in the networks, each once."""

    steps: Sequence[Step]
    extent: Extent
    tolerance: float | None
    autocast: Autocast
    devices: tuple[torch.device, ...]
    learnt: Sequence[Tensor]

    @staticmethod
    def of(steps: Sequence[Step], extent: Extent, tolerance: float | None, x1: Tensor, x2: Tensor) -> Plan:
        """The plan of a call now, from here."""
        kinds = sorted({"cpu", x1.device.type, x2.device.type})
        with exclusive():
            held = {id(step.network): Holdings.of(step.network) for step in steps}
        learnt = {id(p): p for one in held.values() for _, _, p in one.parameters if p.requires_grad}
        autocast, devices = Autocast.now(kinds), generator_devices(x1, x2)
        return Plan(steps, extent, tolerance, autocast, devices, list(learnt.values()))


class Passage:
    """One way through the network, which notes what the way back needs.

    ``learnt`` are the parameters of the call, one for each of the plan's. They are these, as a rule; where others are
    handed over they are lent to the networks, so that the call is a function of its arguments.
    ``saved``: the tensors that the networks hold, each once, the learnt ones first. ``samples``: by step, entries of
    the half before it changed.
    """

    def __init__(self, plan: Plan, learnt: Sequence[Tensor], x1: Tensor, x2: Tensor) -> None:
        self.plan, self.sampler = plan, Sampler(plan.extent)
        self.saved, self.visits = list(learnt), list[Visit]()
        self.samples = self.sampler.table(len(plan.steps), x1, x2)
        self._numbers = {id(original): number for number, original in enumerate(plan.learnt)}
        pairs = zip(plan.learnt, learnt, strict=True)
        self._lent = {id(original): given for original, given in pairs if given is not original}

    def forward(self, halves: list[Tensor]) -> None:
        """All steps, in place of the list; grad mode is off."""
        notes, autocast = [], self.plan.autocast.entering()
        for step, row in zip(self.plan.steps, self.samples, strict=True):
            a, b = halves[step.changes], halves[1 - step.changes]
            versions = version_of(a), version_of(b)
            with exclusive(), autocast():
                held = Holdings.of(step.network)
                before, random = _before(held), RandomState.now(self.plan.devices)
                with replaced(self._loans(held)):
                    halves[step.changes] = step.apply(a, step.terms(b))
                drew = not random.equals(RandomState.now(self.plan.devices))
            if (version_of(a), version_of(b)) != versions:
                raise UsageError(
                    f"{step.name}, or its law, changes x1 or x2 in place.\n"
                    "  why    the way back, and the caller, need them as they were\n"
                    f"  do     use the operation without the underscore, or inplace=False, in {step.name}"
                )
            notes.append((held, before, random if drew else None))
            self.sampler.take(a, row)
        for step, (held, before, drawn) in zip(self.plan.steps, notes, strict=True):
            gone = [each for each in before if each.is_gone()]
            standing = self._saved(held.parameters)
            standing += self._saved(each.held for each in before if not each.is_gone())
            changed = [(*each.held[:2], each.copy) for each in gone]
            self.visits.append(Visit(step, held.modules, held.modes, standing, changed, drawn))

    def _loans(self, held: Holdings) -> list[Held]:
        if not self._lent:
            return []
        return [(*place[:2], self._lent[id(place[2])]) for place in held.parameters if id(place[2]) in self._lent]

    def _saved(self, held: Iterable[Held]) -> list[tuple[Table, str, int]]:
        """The places with the numbers of their tensors among ``saved``, where new ones are added."""
        found = []
        for table, name, tensor in held:
            if id(tensor) not in self._numbers:
                if tensor.requires_grad:
                    raise UsageError(
                        f"a reversible network got a parameter {name} while it ran, which would get no gradient.\n"
                        "  do     make and unfreeze parameters before the call"
                    )
                self._numbers[id(tensor)] = len(self.saved)
                self.saved.append(tensor)
            found.append((table, name, self._numbers[id(tensor)]))
        return found


def _before(held: Holdings) -> list[Before]:
    """Of a buffer that stands in several places, one copy."""
    copies: dict[int, Tensor] = {}
    found = []
    for running, buffers in ((False, held.buffers), (True, held.running)):
        for place in buffers:
            buffer = place[2]
            if id(buffer) not in copies:
                copies[id(buffer)] = buffer.clone()
            found.append(Before(place, version_of(buffer), copies[id(buffer)], running))
    return found
