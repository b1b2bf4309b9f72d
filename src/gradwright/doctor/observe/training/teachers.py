"""Models that only answer: run in the steps of others, in train mode, with dropout or batch normalisation at work.

NOTE [who is a teacher]: nothing that it has is in the optimizer that steps, its values are the same from the first look
to the end of the run, no gradient of its answer reaches it, and it is called by itself, as a part of no other module.
A target network or an average of weights moves, or has the shapes of what learns; a backbone is a part; samples take
one input several times; who says `train()` of it in this phase means it. All of these are left out.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim import Optimizer

from gradwright.doctor.observe.guard import OnFault, guarded
from gradwright.doctor.observe.training.one_step import compiles
from gradwright.doctor.observe.training.outsiders import same_shapes, sample_of
from gradwright.doctor.observe.training.owners import called, household, parameters_of
from gradwright.doctor.observe.training.unrecorded import acts
from gradwright.doctor.session.model import Subject
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.places import location_in, user_frame
from gradwright.ground.hooks import beside_the_graph
from gradwright.ground.torch_versions.tensors import version_of

_LOOKS = frozenset({2, 3, 4, 8, 16, 32, 64, 128, 256, 512})
_CALLS = 2000  # of modules, in a step that is looked at
_SAMPLED = 4  # parameters whose values are compared
FEWEST_LOOKS, FEWEST_STEPS = 4, 8


@dataclass
class Teacher:
    """A module that answers in train mode, in the steps of the ``subject``. ``at``: the steps, from 1."""

    module: weakref.ref[Module]
    name: str
    subject: Subject
    location: Location
    values: list[tuple[weakref.ref[Tensor], Tensor]]
    parts: set[str] = field(default_factory=set)
    at: list[int] = field(default_factory=list)
    is_one: bool = True

    def moves(self) -> bool:
        for reference, before in self.values:
            parameter = reference()
            if parameter is not None and not torch.equal(sample_of(parameter), before):
                return True
        return False


@dataclass
class _Call:
    """A call of a module by the user, while it runs; what its gradients were if one could reach it."""

    module: Module
    location: Location
    name: str
    inputs: list[int]
    parts: set[str] = field(default_factory=set)
    gradients: list[tuple[int, int]] | None = None


class TeacherWatch:
    """Hooks are on for a whole step at a look, and off otherwise."""

    def __init__(self, on_fault: OnFault) -> None:
        self._on_fault = on_fault
        self._known: dict[tuple[int, str], Teacher] = {}  # by module and optimizer
        self._out: weakref.WeakKeyDictionary[Optimizer, weakref.WeakSet[Module]] = weakref.WeakKeyDictionary()
        self._steps: weakref.WeakKeyDictionary[Optimizer, int] = weakref.WeakKeyDictionary()
        self._looking: weakref.ref[Optimizer] | None = None
        self._handles: list[Any] = []
        self._open: list[int] = []
        self._call: _Call | None = None
        self._calls: list[_Call] = []
        self._left = 0
        self._said: weakref.WeakKeyDictionary[Module, int] = weakref.WeakKeyDictionary()
        self._total = 0

    def said_train(self, module: Module) -> None:
        self._said[module] = self._total

    def before_step(self, optimizer: Optimizer, subject: Subject) -> None:
        if self._looking is None or self._looking() is not optimizer:
            return
        calls = list(self._calls)
        self.stop()
        out = self._out.setdefault(optimizer, weakref.WeakSet())
        held = {id(parameter) for parameter in parameters_of(optimizer)}
        step, begun = self._steps[optimizer] + 1, self._total - self._steps[optimizer]
        inputs = [(id(call.module), given) for call in calls for given in call.inputs]
        for call in calls:
            mine = [(id(call.module), given) for given in call.inputs]
            if (
                any(inputs.count(one) > 1 for one in mine)
                or any(id(parameter) in held for parameter in call.module.parameters())
                or self._said.get(call.module, -1) >= begun
                or call.gradients is None
                or call.gradients != _gradients(call.module)
            ):
                out.add(call.module)
                if (known := self._known.get((id(call.module), subject.id))) is not None:
                    known.is_one = False
            elif call.module not in out and not self._goes_on(call, subject, step):
                out.add(call.module)

    def _goes_on(self, call: _Call, subject: Subject, step: int) -> bool:
        """Note the call; whether the module still is a teacher."""
        known = self._known.get((id(call.module), subject.id))
        if known is None or known.module() is not call.module:
            values = [(weakref.ref(one), sample_of(one)) for one in _some(call.module)]
            known = Teacher(weakref.ref(call.module), type(call.module).__name__, subject, call.location, values)
            self._known[id(call.module), subject.id] = known
        known.name = call.name or known.name
        known.parts |= call.parts
        known.at.append(step)
        known.is_one = bool(call.parts) and not known.moves()
        if known.is_one and len(known.at) == FEWEST_LOOKS:
            known.is_one = _is_apart(call.module)
        return known.is_one

    def after_step(self, optimizer: Optimizer) -> None:
        steps = self._steps[optimizer] = self._steps.get(optimizer, 0) + 1
        self._total += 1
        if steps in _LOOKS and not self._handles and not compiles():
            self._looking, self._left = weakref.ref(optimizer), _CALLS
            entered, left = guarded(self._enters, self._on_fault), guarded(self._leaves, self._on_fault)
            self._handles = [
                beside_the_graph(register_module_forward_pre_hook(entered)),
                beside_the_graph(register_module_forward_hook(left, always_call=True)),
            ]

    def stop(self) -> None:
        while self._handles:
            self._handles.pop().remove()
        self._looking, self._call = None, None
        self._open.clear()
        self._calls.clear()

    def _enters(self, module: Module, args: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self._left -= 1
        if self._left <= 0:
            self.stop()
            return
        if not self._open:
            frame = user_frame(1)
            if frame is not None:
                at = location_in(frame.f_code, frame.f_lasti, frame.f_lineno)
                inputs = [id(one) for one in args if isinstance(one, Tensor)]
                self._call = _Call(module, at, self._name_of(module), inputs)
        self._open.append(id(module))
        if self._call is not None and module.training and acts(module):
            self._call.parts.add(type(module).__name__)

    def _name_of(self, module: Module) -> str:
        """Asked once, and only of what is likely to be told: a look at a frame's variables keeps them for a while."""
        looks = (len(one.at) for one in self._known.values() if one.is_one and one.module() is module)
        return called(module) if FEWEST_LOOKS - 1 in looks else ""

    def _leaves(self, module: Module, args: Any, output: Any) -> None:
        if threading.current_thread() is not threading.main_thread() or id(module) not in self._open:
            return
        while self._open and self._open.pop() != id(module):
            pass
        call = self._call
        if self._open or call is None:
            return
        self._call = None
        if next(call.module.parameters(), None) is None:
            return
        with_graph = any(isinstance(one, Tensor) and one.requires_grad for one in _flat(output))
        given_graph = any(isinstance(one, Tensor) and one.requires_grad for one in args)
        if not (with_graph and given_graph):
            call.gradients = _gradients(call.module)
        self._calls.append(call)

    def found(self) -> Iterator[Teacher]:
        for one in self._known.values():
            long = len(one.at) >= FEWEST_LOOKS and one.at[-1] >= FEWEST_STEPS
            if one.is_one and long and one.module() is not None and not one.moves():
                yield one


def _gradients(module: Module) -> list[tuple[int, int]]:
    """Which gradients it has: what a backward adds to them is seen in their versions."""
    return [(id(one.grad), version_of(one.grad)) for one in module.parameters() if one.grad is not None]


def _some(module: Module) -> list[Tensor]:
    parameters: list[Tensor] = list(module.parameters())
    return parameters[: _SAMPLED // 2] + parameters[-_SAMPLED // 2 :]


def _is_apart(module: Module) -> bool:
    """A part of no other module, and no copy of one."""
    house = household()
    return any(root is module for root in house.roots) and not any(
        same_shapes(module, other) for other in house.roots if other is not module
    )


def _flat(output: Any) -> Iterator[Any]:
    if isinstance(output, dict):
        output = list(output.values())
    if isinstance(output, (tuple, list)):
        for one in output:
            yield from _flat(one)
    else:
        yield output
