"""Calls of torch's ``clip_grad_norm_`` and its kin: of which optimizer's gradients, and in what state they were.

The parameters are often a generator, which can be read once only: it is read along as torch reads it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import GeneratorType
from typing import Any

import torch
from torch import Tensor

from gradwright.doctor.observe.guard import OnFault, guarded
from gradwright.doctor.observe.training.ordering.frames import Places
from gradwright.doctor.observe.training.ordering.patches import Patches
from gradwright.doctor.observe.training.ordering.records import Records
from gradwright.doctor.observe.training.ordering.samples import State
from gradwright.doctor.observe.training.ordering.tallies import ClipTally
from gradwright.doctor.observe.training.ordering.windows import Record
from gradwright.doctor.session.place import Location

_FUNCTIONS = ("clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_")
_READ = 8  # parameters by which an optimizer is known
# A limit that no gradient of an unscaled loss comes near: a norm is measured, or the limit was scaled as well.
_NO_LIMIT = 1000.0


class _Call:
    """One call: where, with which limit, and what it read of its parameters."""

    def __init__(self, function: str, at: Location, limit: float | None) -> None:
        self.function, self.at, self.limit = function, at, limit
        self.ids: list[int] = []
        self.before: list[tuple[Record, State]] = []

    def read(self, parameters: Iterable[Any]) -> Iterator[Any]:
        for parameter in parameters:
            if len(self.ids) < _READ:
                self.ids.append(id(parameter))
            yield parameter


class Clipping:
    """Notes each call with the window of the optimizer whose gradients it clips."""

    def __init__(self, records: Records, places: Places) -> None:
        self._records, self._places = records, places
        self._inside = False

    def install(self, patches: Patches, on_fault: OnFault) -> None:
        for home in (torch.nn.utils, torch.nn.utils.clip_grad):
            for name in filter(functools.partial(hasattr, home), _FUNCTIONS):
                patches.replace(home, name, functools.partial(self._watched, name, on_fault))

    def _watched(self, name: str, on_fault: OnFault, original: Callable[..., Any]) -> Callable[..., Any]:
        begin, end = guarded(self._before, on_fault), guarded(self._after, on_fault)

        @functools.wraps(original)
        def clip(*args: Any, **kwargs: Any) -> Any:
            if self._inside or torch.compiler.is_compiling() or not self._records.any_followed():
                return original(*args, **kwargs)
            call = begin(name, args, kwargs)
            if call is None:
                return original(*args, **kwargs)
            if args and isinstance(args[0], GeneratorType):
                args = (call.read(args[0]), *args[1:])
            elif isinstance(kwargs.get("parameters"), GeneratorType):
                kwargs = {**kwargs, "parameters": call.read(kwargs["parameters"])}
            self._inside = True
            try:
                return original(*args, **kwargs)
            finally:
                self._inside = False
                end(call)

        return clip

    def _before(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call | None:
        given = args[1] if len(args) > 1 else kwargs.get("max_norm", kwargs.get("clip_value"))
        limit = float(given) if isinstance(given, (int, float)) else None
        at = self._places.here()
        if at is None or (limit is not None and not limit < _NO_LIMIT):
            return None
        call = _Call(name, at, limit)
        parameters = args[0] if args else kwargs.get("parameters")
        if isinstance(parameters, Tensor):
            call.ids.append(id(parameters))
        elif isinstance(parameters, (list, tuple, set, torch.nn.ParameterList)):
            call.ids += [id(parameter) for parameter in islice(parameters, _READ)]
        for record in self._records.following():
            record.notice()
            call.before.append((record, record.known))
        return call

    def _after(self, call: _Call) -> None:
        for record, before in call.before:
            state = record.sample.state()
            if state == before and not record.has(call.ids):
                continue
            record.know(state)
            window, tally = record.window, record.tally
            clip = tally.clips.setdefault(call.at, ClipTally(call.function, call.at, call.limit))
            clip.calls += 1
            window.clips[call.at] = window.clips.get(call.at, False) or bool(window.micros) or window.by_hand
            if window.scaler is not None and window.micros and not window.by_hand:
                clip.scaled_calls += 1
                clip.enabled, clip.scale = window.scaler
                if clip.first_scaled is None:
                    clip.first_scaled = tally.steps
