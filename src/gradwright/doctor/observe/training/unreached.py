"""Parameters of an optimizer that no gradient was seen of: what they are called, and which modules are cut off."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.modules.module import register_module_forward_pre_hook

from gradwright.doctor.observe.guard import OnFault, guarded
from gradwright.doctor.observe.training.cut_places import Cut, CutPlaces
from gradwright.doctor.observe.training.outsiders import sample_of
from gradwright.doctor.observe.training.owners import household
from gradwright.doctor.session.facts.parameters import Absence, UnreachedParameters
from gradwright.doctor.session.model import Subject
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.places import location_in, user_frame
from gradwright.ground.hooks import beside_the_graph
from gradwright.ground.torch_versions.modules import own_parameters

ASKED = 16  # parameters without a gradient that are asked at every step
_CALLS = 20_000  # of modules, in the step in which they are noted
_STEPS = 6  # of other optimizers, until the one that is waited for takes its own


@dataclass
class Missing:
    """A parameter of an optimizer that had no gradient yet, and some of its values."""

    parameter: weakref.ref[Tensor]
    values: Tensor | None = None
    name: str = ""
    module: str = ""
    owner: weakref.ref[Module] | None = None
    is_part: bool = False
    called_at: Location | None = None
    unrecorded_at: Location | None = None  # called as well, with gradients off
    cut: Cut | None = None

    def moves(self) -> bool:
        """Whether somebody else moves it, with no gradient: an average of weights, a codebook."""
        parameter, values = self.parameter(), self.values
        return parameter is not None and values is not None and not torch.equal(sample_of(parameter), values)


@dataclass
class Use:
    """One optimizer, and its parameters that no gradient was seen of."""

    subject: Subject
    made_at: Location | None
    held: int = 0
    steps: int = 0
    first_backward: int = 0
    with_gradient: set[int] = field(default_factory=set)
    missing: list[Missing] | None = None
    noted: bool = False

    def facts(self, backwards: int) -> Iterator[UnreachedParameters]:
        """``backwards``: how many there were in all."""
        missing = [one for one in self.missing or () if not one.moves()]
        if (
            not missing
            or not (self.noted or len(missing) == self.held)
            or 2 * (backwards - self.first_backward + 1) < self.steps
        ):
            return
        kinds: dict[Absence, list[Missing]] = {}
        for one in (one for one in missing if not one.is_part):
            # No module's call, but seen behind a cut; what a module does under no_grad may be left out on purpose.
            used = one.called_at is not None or (one.cut is not None and one.unrecorded_at is None)
            kind: Absence = "all" if len(missing) == self.held else "cut" if used else "unused"
            kinds.setdefault(kind, []).append(one)
        for kind, ones in kinds.items():
            yield UnreachedParameters(
                id=f"{kind} unreached {self.subject.id}",
                subject=self.subject.id,
                names=tuple(one.name for one in ones if one.name)[:ASKED],
                count=len(ones),
                held=self.held,
                absence=kind,
                steps=self.steps,
                modules=tuple(dict.fromkeys(one.module for one in ones if one.module)),
                made_at=self.made_at,
                called_at=ones[0].called_at,
                unrecorded_at=next((one.unrecorded_at for one in ones if one.unrecorded_at), None),
                cut_at=cut.location if (cut := next((one.cut for one in ones if one.cut), None)) is not None else None,
                cut_by=cut.text if cut is not None else "",
            )


def still(missing: Iterable[Missing]) -> Iterator[Missing]:
    """Those that are alive, and still have no gradient."""
    for one in missing:
        parameter = one.parameter()
        if parameter is not None and parameter.grad is None and parameter.requires_grad:
            yield one


class CutOff:
    """Names what is missing, and notes until the next step where modules are called that are missing altogether, and
    where the way from there to the loss is cut (``cut_places``)."""

    def __init__(self, on_fault: OnFault) -> None:
        self._on_fault = on_fault
        self._owners: dict[int, list[Missing]] = {}
        self._waits_for: dict[str, list[Missing]] = {}  # by the optimizer's subject
        self._cuts: list[Cut] = []  # on the way to the losses since the last step
        self._left = self._steps = 0
        self._hook: Any = None
        self._places = CutPlaces(on_fault)

    def start(self, use: Use) -> None:
        self._waits_for[use.subject.id] = missing = use.missing or []
        self._name(missing)
        if self._hook is None:
            self._left, self._steps = _CALLS, _STEPS
            self._hook = beside_the_graph(register_module_forward_pre_hook(guarded(self._note, self._on_fault)))
        waited = (one.parameter() for missing in self._waits_for.values() for one in missing)
        self._places.begin(id(parameter) for parameter in waited if parameter is not None)

    def before_backward(self, root: Tensor) -> None:
        if self._waits_for:
            self._cuts += self._places.behind(root)

    def before_step(self, subject: Subject) -> None:
        """It is over with the step of the last one that was waited for. What was cut from another one's loss (a fake
        that a discriminator learns from) was cut on purpose."""
        if self._hook is None:
            return
        for one in self._waits_for.pop(subject.id, ()):
            one.cut = next((cut for cut in self._cuts if id(one.parameter()) in cut.reaches), None)
        self._cuts.clear()
        self._steps -= 1
        if not self._waits_for or self._steps <= 0:
            self.stop()

    def stop(self) -> None:
        self._places.stop()
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
        self._owners.clear()
        self._waits_for.clear()
        self._cuts.clear()

    def _name(self, missing: list[Missing]) -> None:
        """What they are called, and of which modules all parameters are missing: a bias alone is no cut (a loss made of
        derivatives does not reach the last one)."""
        owned = household().owned
        without = {id(one.parameter()) for one in missing}
        for one in missing:
            owner = owned.get(id(one.parameter()))
            if owner is None:
                continue
            one.name, one.module, one.owner = owner.name, type(owner.module).__name__, weakref.ref(owner.module)
            own = [parameter for parameter in own_parameters(owner.module).values() if parameter is not None]
            # Of modules that are not torch's, who knows what they use.
            if type(owner.module).__module__.startswith("torch.nn."):
                one.is_part = any(id(item) not in without for item in own)
                if not one.is_part:
                    self._owners.setdefault(id(owner.module), []).append(one)

    def _note(self, module: Module, args: Any) -> None:
        """A module is called: is it one whose parameters get no gradient?"""
        self._left -= 1
        missing = self._owners.get(id(module), ()) if self._left > 0 else ()
        frame = user_frame(1) if missing else None
        kind = "called_at" if torch.is_grad_enabled() else "unrecorded_at"
        for one in missing:
            if one.owner is not None and one.owner() is module and getattr(one, kind) is None and frame is not None:
                setattr(one, kind, location_in(frame.f_code, frame.f_lasti, frame.f_lineno))
