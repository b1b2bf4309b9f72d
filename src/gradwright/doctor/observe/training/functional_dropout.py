"""Dropout that is called as a function, and does not ask for the mode: what drops values after `eval()`.

NOTE [dropout that is meant]: `F.dropout(x, p)` drops by default, and so does the `dropout_p` of an attention. Who
writes `training=True` wants samples of a posterior, and so does who calls it on the same values again in one
evaluation. A module whose training goes on in eval mode (a backward follows) is no evaluation.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.functional import dropout
from torch.overrides import handle_torch_function

from gradwright.doctor.observe.errors.spots import text_of
from gradwright.doctor.observe.guard import OnFault, guarded
from gradwright.doctor.observe.training.one_step import OneStep, name_of
from gradwright.doctor.observe.training.root_text import expression_at
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.places import is_user_file, location_in

_WINDOWS = 4
_KEPT, _ELEMENTS = 8, 64
_FRAMES = 10
_DROPS = frozenset({"dropout", "dropout1d", "dropout2d", "dropout3d"})  # by default, that is
_ATTENTION = "scaled_dot_product_attention"
_BETWEEN = {__file__, guarded.__code__.co_filename, name_of.__wrapped__.__code__.co_filename}
_BETWEEN |= {handle_torch_function.__code__.co_filename, dropout.__code__.co_filename}


@dataclass
class Dropping:
    """A call in a module that was in eval mode. ``inputs``: some values of each window's calls."""

    location: Location
    text: str
    module: str
    inputs: list[tuple[int, Tensor]] = field(default_factory=list)

    @property
    def repeated(self) -> bool:
        seen = [(window, tuple(values.tolist())) for window, values in self.inputs]
        return len(set(seen)) < len(seen)


class DropoutInEval(OneStep):
    """On from an ``eval()`` to the next ``train()`` or backward, the first few times."""

    def __init__(self, on_fault: OnFault) -> None:
        super().__init__(on_fault)
        self._windows = 0
        self._found: dict[tuple[CodeType, int], Dropping | None] = {}
        self._pending: dict[tuple[CodeType, int], Dropping] = {}

    def evaluates(self) -> None:
        if not self._is_on and self._windows < _WINDOWS and self.start():
            self._windows += 1

    def trains(self) -> None:
        """``train()`` was called, or it is over."""
        self.stop()
        for key, dropping in self._pending.items():
            self._found.setdefault(key, dropping)
        self._pending.clear()

    def differentiates(self) -> None:
        """A backward: what recorded a graph was no evaluation."""
        self._pending.clear()
        self.stop()

    def found(self) -> list[Dropping]:
        return [one for one in self._found.values() if one is not None and not one.repeated]

    def note(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        name = name_of(func)
        if not (name in _DROPS or name == _ATTENTION) or not args or not isinstance(args[0], Tensor):
            return
        if name == _ATTENTION:
            drops = (args[4] if len(args) > 4 else kwargs.get("dropout_p", 0.0)) > 0
        else:
            drops = bool(kwargs.get("training", True)) and kwargs.get("p", 0.5) > 0
        frame = _caller(sys._getframe(1)) if drops else None
        if frame is None:
            return
        key = frame.f_code, frame.f_lasti
        dropping = self._found.get(key) or self._pending.get(key)
        if dropping is None and key not in self._found:
            dropping = _dropping(frame)
            if dropping is None or not torch.is_grad_enabled():
                self._found[key] = dropping
            else:
                self._pending[key] = dropping
        if dropping is not None and len(dropping.inputs) < _KEPT:
            dropping.inputs.append((self._windows, args[0].detach().reshape(-1)[:_ELEMENTS].clone()))


def _caller(frame: FrameType | None) -> FrameType | None:
    """Whoever called torch's function, if that is the user and no module of torch's."""
    while frame is not None and frame.f_code.co_filename in _BETWEEN:
        frame = frame.f_back
    return frame if frame is not None and is_user_file(frame.f_code.co_filename) else None


def _dropping(frame: FrameType) -> Dropping | None:
    """The call, if the module around it is in eval mode and the text does not speak of the mode."""
    module = _module_around(frame)
    location = location_in(frame.f_code, frame.f_lasti, frame.f_lineno)
    text = expression_at(location)
    if module is None or module.training or "train" in text:
        return None
    try:
        call = ast.parse(text, mode="eval").body
    except SyntaxError:
        return None
    function = text_of(call.func) if isinstance(call, ast.Call) else ""
    if not isinstance(call, ast.Call) or (len(call.args) > 2 and not function.endswith(_ATTENTION)):
        return None
    return Dropping(location, function, type(module).__name__)


def _module_around(frame: FrameType | None) -> Module | None:
    """The ``self`` of the innermost frame that has one; the variables of no other frame are looked at."""
    for _ in range(_FRAMES):
        if frame is None:
            return None
        if frame.f_code.co_varnames[:1] == ("self",) and isinstance(module := frame.f_locals.get("self"), Module):
            return module
        frame = frame.f_back
    return None
