"""Modules in the wrong mode: steps in eval mode after `eval()`, runs without gradients in train mode after training.
Models that only answer (``teachers``) and dropout that is called as a function (``functional_dropout``) beside them.

NOTE [which runs are evaluations]: a generator's samples, a momentum encoder or pseudo-labels are made without gradients
in train mode as well, in the middle of a step. So only what is run after the last step counts, where one optimizer
took the steps, nobody ever said ``eval()``, nobody said ``train()`` since the last step, and no input was passed twice
(dropout as samples of a posterior).
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer

from gradwright.doctor.observe.guard import guarded
from gradwright.doctor.observe.looker import Looker, Surroundings
from gradwright.doctor.observe.training.functional_dropout import DropoutInEval
from gradwright.doctor.observe.training.owners import called, parameters_of
from gradwright.doctor.observe.training.teachers import TeacherWatch
from gradwright.doctor.observe.training.unrecorded import BlockWatch, acts
from gradwright.doctor.session.facts import Fact
from gradwright.doctor.session.facts.parameters import ModeLeft
from gradwright.doctor.session.model import Subject
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.places import location_in, user_frame
from gradwright.ground.torch_versions.levels import TRANSFORMS
from gradwright.ground.torch_versions.modes import FUNCTIONS
from gradwright.ground.torch_versions.modules import KINDS, MODULES
from gradwright.ground.torch_versions.tensors import TENSORS

_MODULES = 16  # whose mode is followed
_ASKED = 8  # steps in eval mode at which a module is asked whether it takes part


@dataclass
class _Followed:
    """A module whose mode was set, the steps it was trained for in either mode, and where `eval()` left it."""

    module: weakref.ref[Module]
    name: str
    trained: int
    subject: Subject | None = None
    parts: tuple[str, ...] = ()
    takes_part: bool = False
    asked: int = 0
    in_eval: int = 0
    switches: int = 0
    said: bool = False
    location: Location | None = None


class ModeLooker(Looker):
    """Follows ``Module.train`` and the blocks without gradients."""

    looks_at = "train and eval mode, and blocks without gradients"
    needs = (TRANSFORMS, FUNCTIONS, KINDS, MODULES, TENSORS)

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self._followed: list[_Followed] = []
        self._depth = self._steps = self._met = 0
        self._optimizers: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self._subject: Subject | None = None
        self._eval_said = False
        self._train_said_at = self._backward_at = -1
        self._original: Callable[..., Any] | None = None
        self._teachers, self._dropout = TeacherWatch(self.on_fault), DropoutInEval(self.on_fault)
        self._blocks = BlockWatch(self.on_fault, lambda: self._steps if self._may_be_evaluation() else 0)

    def install(self) -> None:
        self._original = Module.train
        Module.train = self._watched(Module.train)  # type: ignore[method-assign]  # and put back
        self._blocks.install()

    def remove(self) -> None:
        self._teachers.stop()
        self._dropout.trains()
        self._blocks.remove()
        if self._original is not None:
            Module.train = self._original  # type: ignore[method-assign]  # as it was

    def _watched(self, original: Callable[..., Any]) -> Callable[..., Any]:
        said = guarded(self._said, self.on_fault)

        @functools.wraps(original)
        def train(module: Module, mode: bool = True) -> Any:
            if self._depth == 0 and not torch.compiler.is_compiling():
                said(module, mode)
            self._depth += 1
            try:
                return original(module, mode)
            finally:
                self._depth -= 1

        return train

    def _said(self, module: Module, mode: bool) -> None:
        if mode:
            self._train_said_at = self._steps
            self._teachers.said_train(module)
            self._dropout.trains()
            return
        self._dropout.evaluates()
        self._eval_said = True
        known = next((one for one in self._followed if one.module() is module), None)
        if known is None:
            if len(self._followed) >= _MODULES or acts(module):
                return
            trained = self._steps if module.training else 0
            known = _Followed(weakref.ref(module), called(module), trained)
            self._followed.append(known)
        if self._steps:
            known.said = True
            if module.training or known.location is None:
                frame = user_frame(1)
                if frame is not None:
                    known.location = location_in(frame.f_code, frame.f_lasti, frame.f_lineno)

    def before_backward(self, site: Subject, root: Tensor | None) -> None:
        self._backward_at = self._steps
        self._dropout.differentiates()

    def before_step(self, optimizer: Optimizer, subject: Subject) -> None:
        self._dropout.stop()  # in the backward it could not leave the stack
        self._teachers.before_step(optimizer, subject)
        if optimizer not in self._optimizers:
            self._optimizers.add(optimizer)
            self._met += 1
            self._subject = self._subject or subject
        for one in self._followed:
            module = one.module()
            if module is None:
                continue
            if module.training:
                one.trained += 1
                one.said = one.takes_part = False
                one.asked = 0
            elif one.trained:
                self._in_eval(one, module, optimizer, subject)

    def _in_eval(self, one: _Followed, module: Module, optimizer: Optimizer, subject: Subject) -> None:
        """A step is taken while a module that was trained before is in eval mode: is it one of those that learn?"""
        if not one.takes_part and one.asked < _ASKED:
            one.asked += 1
            held = {id(parameter) for parameter in parameters_of(optimizer)}
            with_gradient = (parameter for parameter in module.parameters() if parameter.grad is not None)
            one.takes_part = any(id(parameter) in held for parameter in with_gradient)
            one.parts, one.subject = _parts(module), subject
        if one.takes_part and one.parts:
            one.in_eval += 1
            one.switches += one.said
            one.said = False

    def after_step(self, optimizer: Optimizer, subject: Subject) -> None:
        self._steps += 1
        self._teachers.after_step(optimizer)

    def facts(self) -> list[Fact]:
        if not self.clock.over:
            return []  # what comes after a block is not known before
        known: list[Fact] = [
            ModeLeft(
                id=f"mode of {one.name} {one.subject.id}",
                subject=one.subject.id,
                module=one.name,
                parts=one.parts,
                wrong="training",
                steps_before=one.trained,
                steps_after=one.in_eval,
                switches=one.switches,
                location=one.location,
            )
            for one in self._followed
            if one.in_eval and one.subject is not None
        ]
        evaluated = self._evaluated()
        known += [evaluated] if evaluated is not None else []
        return known if self.clock.stopped_early else [*known, *self._answering(), *self._dropping()]

    def _answering(self) -> Iterator[ModeLeft]:
        for number, one in enumerate(self._teachers.found()):
            yield ModeLeft(
                id=f"teacher {number} {one.subject.id}",
                subject=one.subject.id,
                module=one.name,
                parts=tuple(sorted(one.parts)),
                wrong="teacher",
                steps_before=len(one.at),
                steps_after=one.at[-1],
                location=one.location,
            )

    def _dropping(self) -> Iterator[ModeLeft]:
        for number, one in enumerate(self._dropout.found() if self._subject is not None else ()):
            assert self._subject is not None
            yield ModeLeft(
                id=f"dropout {number} {self._subject.id}",
                subject=self._subject.id,
                module=one.module,
                parts=(one.text,),
                wrong="function",
                steps_before=self._steps,
                steps_after=0,
                location=one.location,
            )

    def _may_be_evaluation(self) -> bool:
        return self._met == 1 and not self._eval_said

    def _evaluated(self) -> ModeLeft | None:
        """See NOTE [which runs are evaluations]."""
        block = self._blocks.last
        if block is None or self._subject is None or self.clock.stopped_early or not self._may_be_evaluation():
            return None
        if block.step < self._steps or self._train_said_at >= self._steps or self._backward_at >= self._steps:
            return None
        return ModeLeft(
            id=f"mode without gradients {self._subject.id}",
            subject=self._subject.id,
            module=block.name,
            parts=tuple(sorted(block.parts)),
            wrong="evaluation",
            steps_before=self._steps,
            steps_after=0,
            location=block.location,
        )


def _parts(module: Module) -> tuple[str, ...]:
    inner = (type(one).__name__ for one in module.modules() if acts(one) and not one.training)
    return tuple(dict.fromkeys(inner))
