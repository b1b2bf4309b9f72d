"""Which parameters the losses reach, and which the optimizers hold.

NOTE [looks at parameters]: the first graphs of each backward are walked for their leaves, then one in twice as many; so
are the gradients of an optimizer's parameters at its steps. What had no gradient yet is asked again at every step, a
few of them. What is reached and in no optimizer is given its name by ``owners.household`` (once or a few times in a
run, and only if there is any), and its values are compared later: what moves is updated by somebody else.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch.optim import Optimizer

from gradwright.doctor.observe.guard import guarded
from gradwright.doctor.observe.looker import Looker, Surroundings
from gradwright.doctor.observe.training.one_step import compiles
from gradwright.doctor.observe.training.outsiders import Outsiders, Reached, sample_of
from gradwright.doctor.observe.training.owners import parameters_of
from gradwright.doctor.observe.training.unreached import ASKED, CutOff, Missing, Use, still
from gradwright.doctor.session.facts import Fact
from gradwright.doctor.session.model import Subject
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.places import location_in, user_frame
from gradwright.ground.graphs import graph_of
from gradwright.ground.torch_versions.engine import SEQUENCE
from gradwright.ground.torch_versions.levels import TRANSFORMS
from gradwright.ground.torch_versions.modes import FUNCTIONS
from gradwright.ground.torch_versions.modules import MODULES

_FIRST = 3
_NODES = 20_000  # of a graph
_OPTIMIZERS = 64  # that are followed; an inner loop may make one in each step
_SCANS = 3  # of the process for names
_PHASES = 4  # optimizers, with each of which the graphs are looked at anew


def looked_at(number: int) -> bool:
    """The first ones, then one in twice as many."""
    return number <= _FIRST or not number & (number - 1)


class ParameterLooker(Looker):
    """See NOTE [looks at parameters]."""

    looks_at = "which parameters get gradients and which an optimizer holds"
    needs = (SEQUENCE, TRANSFORMS, FUNCTIONS, MODULES)

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self._calls: dict[str, int] = {}
        self._backwards = 0
        self._reached: dict[int, Reached] = {}
        self._uses: weakref.WeakKeyDictionary[Optimizer, Use] = weakref.WeakKeyDictionary()
        self._all: list[Use] = []
        self._made: weakref.WeakKeyDictionary[Optimizer, Location] = weakref.WeakKeyDictionary()
        self._restore: list[Callable[[], None]] = []
        self._loaded: weakref.WeakSet[Module] = weakref.WeakSet()
        self._cut_off = CutOff(self.on_fault)
        self._scans = _SCANS
        self._outsiders = Outsiders(self._loaded)

    def install(self) -> None:
        self._note_first(Optimizer, "__init__", self._meet)
        self._note_first(Module, "load_state_dict", self._loaded.add)

    def _note_first(self, owner: type, name: str, note: Callable[[Any], None]) -> None:
        """``note`` the object that the method is called on, then call it."""
        original, noted = getattr(owner, name), guarded(note, self.on_fault)

        @functools.wraps(original)
        def call(this: Any, *args: Any, **kwargs: Any) -> Any:
            noted(this)
            return original(this, *args, **kwargs)

        setattr(owner, name, call)
        self._restore.append(functools.partial(setattr, owner, name, original))

    def remove(self) -> None:
        self._cut_off.stop()
        while self._restore:
            self._restore.pop()()

    def _meet(self, optimizer: Optimizer) -> None:
        frame = user_frame(3)
        if frame is not None:
            self._made[optimizer] = location_in(frame.f_code, frame.f_lasti, frame.f_lineno)

    def before_backward(self, site: Subject, root: Tensor | None) -> None:
        calls = self._calls[site.id] = self._calls.get(site.id, 0) + 1
        self._backwards += 1
        if root is not None:
            self._cut_off.before_backward(root)
        if root is None or not looked_at(calls):
            return
        for place, node in enumerate(graph_of([root], most=_NODES)):
            leaf: Any = getattr(node, "variable", None)
            if type(leaf) in (Parameter, Tensor) and leaf.layout is torch.strided:
                known = self._reached.get(id(leaf))
                if known is None or known.parameter() is not leaf:
                    known = self._reached[id(leaf)] = Reached(weakref.ref(leaf), place)
                known.seen_at = self._backwards

    def before_step(self, optimizer: Optimizer, subject: Subject) -> None:
        self._cut_off.before_step(subject)
        use = self._uses.get(optimizer)
        if use is None:
            if len(self._all) >= _OPTIMIZERS:
                return
            use = self._uses[optimizer] = Use(subject, self._made.get(optimizer))
            use.held = sum(1 for _ in parameters_of(optimizer))
            use.first_backward = self._backwards
            self._all.append(use)
            if 1 < len(self._all) <= _PHASES:
                self._calls.clear()  # look at the graphs anew
        if looked_at(use.steps + 1):
            use.with_gradient = {id(one) for one in parameters_of(optimizer) if one.grad is not None}

    def after_step(self, optimizer: Optimizer, subject: Subject) -> None:
        use = self._uses.get(optimizer)
        if use is None:
            return
        use.steps += 1
        if use.missing:
            use.missing = [*still(use.missing[:ASKED]), *use.missing[ASKED:]]
        if looked_at(use.steps):
            self._look(optimizer, use)
            if use.steps >= _FIRST:
                self._outsiders.look(self._recent(use), self._uses, self._without_gradient(), optimizer)
        self._outsiders.step()

    def _recent(self, use: Use) -> dict[int, Reached]:
        """What was reached since this optimizer's first step: a script may have several phases."""
        return {key: one for key, one in self._reached.items() if one.seen_at >= use.first_backward}

    def _without_gradient(self) -> set[int]:
        return {id(one.parameter()) for use in self._all for one in use.missing or ()}

    def _look(self, optimizer: Optimizer, use: Use) -> None:
        if use.missing is None:
            use.missing = [
                Missing(weakref.ref(parameter))
                for parameter in parameters_of(optimizer)
                if parameter.requires_grad and parameter.grad is None and id(parameter) not in use.with_gradient
            ]
        else:
            use.missing = [one for one in still(use.missing) if id(one.parameter()) not in use.with_gradient]
        use.with_gradient.clear()
        if use.missing and use.steps == 2:
            for one in use.missing:
                parameter = one.parameter()
                one.values = sample_of(parameter) if parameter is not None else None
        if use.missing and use.steps == _FIRST and self._scans and not compiles():
            self._scans -= 1
            self._cut_off.start(use)
        elif use.steps > _FIRST:
            use.noted = True
            use.missing = [one for one in use.missing if not one.moves()]

    def facts(self) -> list[Fact]:
        if not self.clock.over:
            return []  # what is missing may still come, and a fact can't be taken back
        known: list[Fact] = []
        for use in self._all:
            known += use.facts(self._backwards)
        return known + self._outsiders.facts()
