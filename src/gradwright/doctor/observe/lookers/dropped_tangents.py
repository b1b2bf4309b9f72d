"""Operators of ``torch.library.custom_op`` in forward mode: they return their values and drop the tangents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from gradwright.doctor.observe.guard import guarded
from gradwright.doctor.observe.looker import Looker, Surroundings
from gradwright.doctor.session.facts import Fact, TangentDropped
from gradwright.doctor.session.model import Subject
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.places import definition, location_in, user_frame
from gradwright.ground.tensors import tensors_in
from gradwright.ground.torch_versions.levels import FORWARD, forward_level
from gradwright.ground.torch_versions.operators import CUSTOM, CustomOpDef, body_of_custom, name_of_custom


@dataclass
class _Seen:
    subject: Subject
    operator: str
    location: Location
    times: int = 0


class DroppedTangents(Looker):
    """Stands in for the call of an operator object; outside forward mode it asks for one number and passes on."""

    looks_at = "custom operators that drop tangents in forward mode"
    needs = (FORWARD, CUSTOM)

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self._seen: dict[str, _Seen] = {}
        self._restore: Callable[[], None] = lambda: None
        self._look = guarded(self._called, self.on_fault)

    def install(self) -> None:

        look = self._look
        original: Callable[..., Any] = CustomOpDef.__call__

        def call(operator: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(operator, *args, **kwargs)
            if not torch.compiler.is_compiling() and forward_level() >= 0:
                look(operator, (args, kwargs), result)
            return result

        setattr(CustomOpDef, "__call__", call)  # noqa: B010 - its type has no name that could be given
        self._restore = lambda: setattr(CustomOpDef, "__call__", original)

    def remove(self) -> None:
        self._restore()

    def _called(self, operator: Any, given: Any, result: Any) -> None:
        outputs = [out for out in tensors_in(result) if out.is_floating_point() or out.is_complex()]
        if not outputs or not any(map(_has_tangent, tensors_in(given))) or any(map(_has_tangent, outputs)):
            return
        name = name_of_custom(operator)
        if name not in self._seen:
            frame, body = user_frame(4), body_of_custom(operator)
            at = definition(body)
            subject = Subject(f"operator:{name}@{at}", "plain_function", str(body.__name__), at)
            self.on_new(subject)
            place = location_in(frame.f_code, frame.f_lasti, frame.f_lineno) if frame is not None else at
            self._seen[name] = _Seen(subject, name, place)
        self._seen[name].times += 1

    def facts(self) -> list[Fact]:
        return [
            TangentDropped(
                id=f"tangent {seen.subject.id}",
                subject=seen.subject.id,
                location=seen.location,
                operator=seen.operator,
                times=seen.times,
            )
            for seen in self._seen.values()
        ]


def _has_tangent(tensor: Tensor) -> bool:
    unpack: Callable[[Tensor], Any] = forward_ad.unpack_dual
    return unpack(tensor).tangent is not None
