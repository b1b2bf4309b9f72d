"""Functions of the user's that return a loss: found by looking on during one step, between two backwards.

NOTE [One step]: Python's profile hook is on from the end of a backward to the beginning of the next one, and off again
for good as soon as a loss was seen, or a few steps have gone by. A script that profiles itself is left alone.
"""

from __future__ import annotations

import inspect
import sys
import threading
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch
from torch import Tensor

from gradwright.doctor.observe.guard import OnFault, guarded
from gradwright.doctor.observe.specimens import copy_names
from gradwright.doctor.observed import LossUse
from gradwright.doctor.session.model import Subject
from gradwright.doctor.source.places import body_of, is_user_file
from gradwright.ground.tensors import tensor_bytes

STEPS = 3
EVENTS = 200_000  # calls and returns in a step, after which it is left alone
LARGEST_BYTES = 256 << 20
MOST = 16


class LossWatch:
    """``uses``: the losses that were seen, by their code."""

    def __init__(self, on_fault: OnFault) -> None:
        self._hook = guarded(self._look, on_fault)  # what raises in Python's profile hook raises in the script
        self.uses: dict[CodeType, LossUse] = {}
        self._steps = 0
        self._events = 0
        self._is_on = False
        self._open: dict[int, tuple[FrameType, dict[str, Any]]] = {}
        self._is_candidate: dict[CodeType, bool] = {}
        self._main = threading.get_ident()

    def before_backward(self) -> None:
        self.stop()

    def after_backward(self) -> None:
        """Look on until the next backward, if there is anything to be learnt."""
        done = self.uses or self._steps >= STEPS or sys.getprofile() is not None or sys.gettrace() is not None
        if done or threading.get_ident() != self._main:
            return
        self._steps += 1
        self._events = 0
        self._is_on = True
        sys.setprofile(self._hook)

    def stop(self) -> None:
        self._is_on = False
        self._open.clear()
        if sys.getprofile() is self._hook:
            sys.setprofile(None)

    def _look(self, frame: FrameType, event: str, value: Any) -> None:
        if not self._is_on:
            sys.setprofile(None)
            return
        self._events += 1
        if self._events > EVENTS:
            self.stop()
            return
        if event == "call":
            code = frame.f_code
            known = self._is_candidate.get(code)
            if known is None:
                known = self._is_candidate[code] = _may_be_loss(code)
            if known:
                self._open[id(frame)] = frame, _arguments(frame)
        elif event == "return" and id(frame) in self._open:
            _, arguments = self._open.pop(id(frame))
            if _is_loss(value, arguments):
                self._keep(frame, arguments)

    def _keep(self, frame: FrameType, arguments: dict[str, Any]) -> None:
        function = _function_of(frame, arguments)
        if function is None or frame.f_code in self.uses or len(self.uses) >= MOST:
            return
        tensors = [value for value in arguments.values() if isinstance(value, Tensor)]
        if sum(map(tensor_bytes, tensors)) > LARGEST_BYTES:
            return
        code = frame.f_code
        at = body_of(code)
        name = code.co_qualname.replace("<locals>.", "")
        subject = Subject(f"callable:{name}@{at.path}:{at.line}", "callable", name, at)
        copies = copy_names(arguments)
        self.uses[code] = LossUse(subject, function, tuple(copies), tuple(copies.values()))


def _may_be_loss(code: CodeType) -> bool:
    several = code.co_argcount >= 2 and not code.co_kwonlyargcount
    plain = not code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR)
    return several and plain and is_user_file(code.co_filename)


def _arguments(frame: FrameType) -> dict[str, Any]:
    variables = frame.f_locals
    return {name: variables[name] for name in frame.f_code.co_varnames[: frame.f_code.co_argcount] if name in variables}


def _is_loss(value: Any, arguments: dict[str, Any]) -> bool:
    """A number with a graph, of two tensors or more, one of which requires a gradient."""
    if not isinstance(value, Tensor) or value.ndim or not value.requires_grad or not value.is_floating_point():
        return False
    tensors = [
        one for one in arguments.values() if isinstance(one, Tensor) and type(one) in (Tensor, torch.nn.Parameter)
    ]
    return len(tensors) >= 2 and any(one.requires_grad for one in tensors)


def _function_of(frame: FrameType, arguments: dict[str, Any]) -> FunctionType | None:
    """The function whose call the frame is: a module's, a method of its first argument, or made anew of its code."""
    code = frame.f_code
    first = next(iter(arguments.values()), None)
    candidates = [frame.f_globals.get(code.co_name), getattr(type(first), code.co_name, None)]
    for one in candidates:
        one = inspect.unwrap(one) if callable(one) else None
        if isinstance(one, FunctionType) and one.__code__ is code:
            return one
    return None if code.co_freevars else FunctionType(code, frame.f_globals, code.co_name)
