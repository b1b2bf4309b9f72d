"""Which parameters the losses reach, and which the optimizers hold.

NOTE [looks at parameters]: the first graphs of each backward are walked for their leaves, then one in twice as many; so
are the gradients of an optimizer's parameters at its steps. What had no gradient yet is asked again at every step, a
few of them. What is reached and in no optimizer is given its name by ``owners.household`` (once or a few times in a
run, and only if there is any), and its values are compared later: what moves is updated by somebody else.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim import Optimizer

from gradwright.doctor.observe.guard import guarded
from gradwright.doctor.observe.looker import Looker, Surroundings
from gradwright.doctor.observe.training.op_places import compiles
from gradwright.doctor.observe.training.outsiders import Outsiders, Reached, sample_of
from gradwright.doctor.observe.training.owners import household, parameters_of
from gradwright.doctor.session.facts import Fact
from gradwright.doctor.session.facts.parameters import Absence, UnreachedParameters
from gradwright.doctor.session.model import Subject
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.places import location_in, user_frame
from gradwright.ground.graphs import graph_of

_FIRST = 3
_NODES = 20_000  # of a graph
_ASKED = 16  # parameters without a gradient that are asked at every step
_OPTIMIZERS = 64  # that are followed; an inner loop may make one in each step
_SCANS = 3  # of the process for names
_PHASES = 4  # optimizers, with each of which the graphs are looked at anew
_CALLS = 20_000  # of modules, in the step in which they are noted


def looked_at(number: int) -> bool:
    """The first ones, then one in twice as many."""
    return number <= _FIRST or not number & (number - 1)


@dataclass
class _Missing:
    """A parameter of an optimizer that had no gradient yet, and some of its values."""

    parameter: weakref.ref[Tensor]
    values: Tensor | None = None
    name: str = ""
    module: str = ""
    owner: weakref.ref[Module] | None = None
    is_part: bool = False
    called_at: Location | None = None


@dataclass
class _Use:
    """One optimizer, and its parameters that no gradient was seen of."""

    subject: Subject
    made_at: Location | None
    held: int = 0
    steps: int = 0
    first_backward: int = 0
    with_gradient: set[int] = field(default_factory=set)
    missing: list[_Missing] | None = None
    noted: bool = False


class ParameterLooker(Looker):
    """See NOTE [looks at parameters]."""

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self._calls: dict[str, int] = {}
        self._backwards = 0
        self._reached: dict[int, Reached] = {}
        self._uses: weakref.WeakKeyDictionary[Optimizer, _Use] = weakref.WeakKeyDictionary()
        self._all: list[_Use] = []
        self._made: weakref.WeakKeyDictionary[Optimizer, Location] = weakref.WeakKeyDictionary()
        self._restore: list[Callable[[], None]] = []
        self._loaded: weakref.WeakSet[Module] = weakref.WeakSet()
        self._noting: Any = None
        self._owners: dict[int, list[_Missing]] = {}
        self._left, self._scans = 0, _SCANS
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
        self._note_no_more()
        while self._restore:
            self._restore.pop()()

    def _meet(self, optimizer: Optimizer) -> None:
        frame = user_frame(3)
        if frame is not None:
            self._made[optimizer] = location_in(frame.f_code, frame.f_lasti, frame.f_lineno)

    def before_backward(self, site: Subject, root: Tensor | None) -> None:
        calls = self._calls[site.id] = self._calls.get(site.id, 0) + 1
        self._backwards += 1
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
        self._note_no_more()
        use = self._uses.get(optimizer)
        if use is None:
            if len(self._all) >= _OPTIMIZERS:
                return
            use = self._uses[optimizer] = _Use(subject, self._made.get(optimizer))
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
            use.missing = [*_still(use.missing[:_ASKED]), *use.missing[_ASKED:]]
        if looked_at(use.steps):
            self._look(optimizer, use)
            if use.steps >= _FIRST:
                self._outsiders.look(self._recent(use), self._uses, self._without_gradient(), optimizer)
        self._outsiders.step()

    def _recent(self, use: _Use) -> dict[int, Reached]:
        """What was reached since this optimizer's first step: a script may have several phases."""
        return {key: one for key, one in self._reached.items() if one.seen_at >= use.first_backward}

    def _without_gradient(self) -> set[int]:
        return {id(one.parameter()) for use in self._all for one in use.missing or ()}

    def _look(self, optimizer: Optimizer, use: _Use) -> None:
        if use.missing is None:
            use.missing = [
                _Missing(weakref.ref(parameter))
                for parameter in parameters_of(optimizer)
                if parameter.requires_grad and parameter.grad is None and id(parameter) not in use.with_gradient
            ]
        else:
            use.missing = [one for one in _still(use.missing) if id(one.parameter()) not in use.with_gradient]
        use.with_gradient.clear()
        if use.missing and use.steps == 2:
            for one in use.missing:
                parameter = one.parameter()
                one.values = sample_of(parameter) if parameter is not None else None
        if use.missing and use.steps == _FIRST and len(use.missing) < use.held and self._scans and not compiles():
            self._scans -= 1
            self._name(use.missing)
            if self._noting is None:
                self._left = _CALLS
                self._noting = register_module_forward_pre_hook(guarded(self._note, self.on_fault))
        elif use.steps > _FIRST:
            use.noted = True
            use.missing = [one for one in use.missing if not _moved(one)]

    def _name(self, missing: list[_Missing]) -> None:
        """What they are called, and of which modules all parameters are missing: a bias alone is no cut (a loss made of
        derivatives does not reach the last one)."""
        owned = household().owned
        without = {id(one.parameter()) for one in missing}
        for one in missing:
            owner = owned.get(id(one.parameter()))
            if owner is None:
                continue
            one.name, one.module, one.owner = owner.name, type(owner.module).__name__, weakref.ref(owner.module)
            own = [parameter for parameter in owner.module._parameters.values() if parameter is not None]
            # Of modules that are not torch's, who knows what they use.
            if type(owner.module).__module__.startswith("torch.nn."):
                one.is_part = any(id(item) not in without for item in own)
                if not one.is_part:
                    self._owners.setdefault(id(owner.module), []).append(one)

    def _note(self, module: Module, args: Any) -> None:
        """A module is called: is it one whose parameters get no gradient?"""
        self._left -= 1
        missing = self._owners.get(id(module), ()) if self._left > 0 and torch.is_grad_enabled() else ()
        frame = user_frame(1) if missing else None
        for one in missing:
            if one.owner is not None and one.owner() is module and one.called_at is None and frame is not None:
                one.called_at = location_in(frame.f_code, frame.f_lasti, frame.f_lineno)

    def _note_no_more(self) -> None:
        if self._noting is not None:
            self._noting.remove()
            self._noting = None
            self._owners.clear()

    def facts(self) -> list[Fact]:
        if not self.clock.over:
            return []  # what is missing may still come, and a fact can't be taken back
        known: list[Fact] = []
        for use in self._all:
            known += self._unreached(use)
        return known + self._outsiders.facts()

    def _unreached(self, use: _Use) -> Iterator[UnreachedParameters]:
        missing = [one for one in use.missing or () if not _moved(one)]
        if (
            not missing
            or not (use.noted or len(missing) == use.held)
            or 2 * (self._backwards - use.first_backward + 1) < use.steps
        ):
            return
        kinds: dict[Absence, list[_Missing]] = {}
        for one in (one for one in missing if not one.is_part):
            kind: Absence = "all" if len(missing) == use.held else "cut" if one.called_at is not None else "unused"
            kinds.setdefault(kind, []).append(one)
        for kind, ones in kinds.items():
            yield UnreachedParameters(
                id=f"{kind} unreached {use.subject.id}",
                subject=use.subject.id,
                names=tuple(one.name for one in ones if one.name)[:_ASKED],
                count=len(ones),
                held=use.held,
                absence=kind,
                steps=use.steps,
                modules=tuple(dict.fromkeys(one.module for one in ones if one.module)),
                made_at=use.made_at,
                called_at=ones[0].called_at,
            )


def _still(missing: list[_Missing]) -> Iterator[_Missing]:
    """Those that are alive, and still have no gradient."""
    for one in missing:
        parameter = one.parameter()
        if parameter is not None and parameter.grad is None and parameter.requires_grad:
            yield one


def _moved(one: _Missing) -> bool:
    """Whether somebody else moves it, with no gradient: an average of weights, a codebook."""
    parameter = one.parameter()
    values = one.values
    return parameter is not None and values is not None and not torch.equal(sample_of(parameter), values)
