"""Optimizer steps, and gradients that were never cleared between them.

NOTE [stale gradients]: after a step, the gradients of a few parameters are remembered by object and version. If a later
backward still finds the same object, with the same version and not all zero, it adds to gradients that a step has
already used. Whether that was meant to be is only known at the optimizer's own next step: in a GAN the generator's
backward also adds to the discriminator's old gradients, which are cleared before the discriminator's turn. So a step is
stale when since the step before, no backward and not the step itself found the gradients cleared or replaced, and none
was changed by anything but a backward (``p.grad.mul_(0.9)`` is somebody's momentum, not an omission). A step with a
closure takes its gradients inside, so it is judged when it is over as well.

An optimizer that is made anew at the same place (an inner loop, a fold) carries on its predecessor's record; what was
remembered only where it holds the same parameters: a predecessor's model may live on, with gradients nobody clears.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from gradwright.doctor.observe.clock import Clock
from gradwright.doctor.observe.guard import OnFault, guarded
from gradwright.doctor.observe.timeline import TimelineRecord
from gradwright.doctor.session.facts import Fact, OptimizerSteps
from gradwright.doctor.session.model import Subject
from gradwright.doctor.source.places import is_user_file, location_in, user_frame
from gradwright.ground.hooks import beside_the_graph
from gradwright.ground.tensors import is_being_captured
from gradwright.ground.torch_versions.capability import Capability
from gradwright.ground.torch_versions.tensors import TENSORS, version_of

# Parameters of an optimizer whose gradients are remembered, and how many are looked at to find them.
_SAMPLE, _LOOKED_AT = 4, 16


@dataclass
class Remembered:
    """A parameter's gradient as a step left it; held weakly, so that both are freed as ever."""

    parameter: weakref.ref[Tensor]
    grad: weakref.ref[Tensor]
    version: int
    #: Whether it was not all zero: on an accelerator, which has yet to compute that.
    was_filled: Tensor

    def same(self) -> Tensor | None:
        """The parameter's gradient if it still is that one."""
        parameter = self.parameter()
        grad = parameter.grad if parameter is not None else None
        return grad if grad is self.grad() else None

    def now(self) -> Tensor | None:
        """The parameter's gradient if it still is that one and not cleared."""
        grad = self.same()
        return grad if grad is not None and bool(_is_filled(grad)) else None

    def untouched(self) -> bool:
        grad = self.now()
        return grad is not None and version_of(grad) == self.version


@dataclass
class OptimizerUse:
    """One optimizer and what was seen of it."""

    subject: Subject
    optimizer: weakref.ref[Optimizer]
    steps: int = 0
    stale_steps: int = 0
    first_stale: int | None = None
    parameters: int = 0
    optimizers: int = 1
    remembered: list[Remembered] = field(default_factory=list)
    added_to_stale: bool = False
    cleared: bool = False
    site: Subject | None = None
    began: float | None = None  # the step that is under way

    def keep_what_belongs_to(self, optimizer: Optimizer) -> None:
        """See NOTE [stale gradients], its end."""
        held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        if any(id(one.parameter()) not in held for one in self.remembered):
            self.remembered, self.added_to_stale, self.cleared = [], False, False

    def leave_out_zeros(self) -> None:
        """What is zero by itself (the weights of a dead unit) says nothing about clearing. On an accelerator it is
        looked for only where a gradient is still there: to look is to wait."""
        if any(held.same() is not None for held in self.remembered):
            self.remembered = [held for held in self.remembered if bool(held.was_filled)]


OnStep = Callable[[Optimizer, Subject], None]


def _nothing(optimizer: Optimizer, subject: Subject) -> None:
    """Nobody wants to know."""


class OptimizerWatch:
    """Listens to every optimizer through torch's own global hooks. What it looks at is looked at ``apart``."""

    needs: ClassVar[tuple[Capability, ...]] = (TENSORS,)

    def __init__(
        self,
        clock: Clock,
        timeline: TimelineRecord,
        on_new: Callable[[Subject], None],
        pulse: Callable[[], None],
        on_fault: OnFault,
        apart: Callable[[], AbstractContextManager[None]],
        before_step: OnStep = _nothing,
        after_step: OnStep = _nothing,
    ) -> None:
        self._clock, self._timeline, self._apart = clock, timeline, apart
        self._on_new, self._pulse, self._on_fault = on_new, pulse, on_fault
        self._tell_before, self._tell_after = before_step, after_step
        self.uses: weakref.WeakKeyDictionary[Optimizer, OptimizerUse] = weakref.WeakKeyDictionary()
        self._all: list[OptimizerUse] = []
        self._handles: list[Any] = []

    def install(self) -> None:
        self._handles = [
            beside_the_graph(register_optimizer_step_pre_hook(guarded(self._before_step, self._on_fault))),
            beside_the_graph(register_optimizer_step_post_hook(guarded(self._after_step, self._on_fault))),
        ]

    def remove(self) -> None:
        while self._handles:
            self._handles.pop().remove()

    def any_met(self) -> bool:
        return bool(self._all)

    def before_backward(self, site: Subject) -> None:
        """See NOTE [stale gradients]."""
        for use in self._all:
            if use.cleared:
                continue
            use.leave_out_zeros()
            if not use.remembered:
                continue
            if all(held.untouched() for held in use.remembered):
                use.added_to_stale = True
                use.site = site
            elif not use.added_to_stale or any(held.now() is None for held in use.remembered):
                use.cleared = True

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        use = self.uses.get(optimizer) or self._meet(optimizer)
        use.began = None  # of a step that raised
        with self._apart():
            self._judge(use)
            self._tell_before(optimizer, use.subject)
        use.began = time.perf_counter()

    def _judge(self, use: OptimizerUse) -> None:
        if use.added_to_stale and not use.cleared and all(held.now() is not None for held in use.remembered):
            use.stale_steps += 1
            use.added_to_stale = False
            if use.first_stale is None:
                use.first_stale = use.steps

    def _after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        ended = time.perf_counter()
        use = self.uses.get(optimizer)
        if use is None:
            return
        if use.began is not None:
            self._timeline.add(use.subject.id, "step", use.began, ended)
            use.began = None
        with self._apart():
            self._judge(use)
            use.remembered = list(islice(self._remembered(optimizer), _SAMPLE))
            self._tell_after(optimizer, use.subject)
        use.steps += 1
        use.added_to_stale = use.cleared = False
        self._clock.steps = max(self._clock.steps, use.steps)
        self._pulse()

    def _remembered(self, optimizer: Optimizer) -> Iterator[Remembered]:
        known = (p for group in optimizer.param_groups for p in group["params"] if p.grad is not None)
        for parameter in islice((p for p in known if p.grad.layout is torch.strided), _LOOKED_AT):
            grad = parameter.grad
            if is_being_captured(grad):  # what is queued now has no values until the graph is replayed
                return
            was_filled = _is_filled(grad)
            if grad.device.type != "cpu" or bool(was_filled):
                yield Remembered(weakref.ref(parameter), weakref.ref(grad), version_of(grad), was_filled)

    def _meet(self, optimizer: Optimizer) -> OptimizerUse:
        frame = user_frame(5)
        name = type(optimizer).__name__
        if frame is None:
            frame = user_frame(1)
        assert frame is not None  # somebody called step
        at = location_in(frame.f_code, frame.f_lasti, frame.f_lineno)
        gone = (use for use in self._all if use.optimizer() is None)
        use = next((use for use in gone if (use.subject.name, use.subject.location) == (name, at)), None)
        if use is not None:
            use.optimizer, use.optimizers = weakref.ref(optimizer), use.optimizers + 1
            use.keep_what_belongs_to(optimizer)
            self.uses[optimizer] = use
            return use
        subject = Subject(
            id=f"optimizer:{name}{len(self._all)}@{at.path}:{at.line}",
            kind="optimizer",
            name=name,
            location=at,
            origin="script" if is_user_file(frame.f_code.co_filename) else "library",
        )
        parameters = sum(len(group["params"]) for group in optimizer.param_groups)
        use = OptimizerUse(subject, weakref.ref(optimizer), parameters=parameters)
        self.uses[optimizer] = use
        self._all.append(use)
        self._on_new(subject)
        return use

    def facts(self) -> list[Fact]:
        return [
            OptimizerSteps(
                id=f"steps {use.subject.id}",
                subject=use.subject.id,
                steps=use.steps,
                stale_steps=use.stale_steps,
                first_stale_step=use.first_stale,
                optimizers=use.optimizers,
                parameters=use.parameters,
                backward_site=use.site.location if use.site is not None else None,
            )
            for use in self._all
        ]


def _is_filled(grad: Tensor) -> Tensor:
    """Whether it is not all zero; queued, where that takes a device."""
    return torch.any(grad.detach() != 0)
