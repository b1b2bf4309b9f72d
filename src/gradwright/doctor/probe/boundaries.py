"""Which operation first makes NaN or inf of finite cotangents: found by a hook on each node of the graph."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from gradwright.checking import input_names
from gradwright.checking.chance import reproducible
from gradwright.checking.context import run_backward, run_forward
from gradwright.doctor.observed import FunctionUse, Kept
from gradwright.doctor.probe.attempts import Limits, attempt
from gradwright.doctor.probe.shrink import describe, fresh
from gradwright.doctor.session.facts import Fact, UndefinedGradient
from gradwright.doctor.session.model import Subject
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.places import is_user_file, location_in, text_of_file
from gradwright.ground.tensors import differentiable, tensors_in

_QUOTIENTS = frozenset({"div", "divide", "true_divide", "__truediv__", "__rtruediv__"})


@dataclass(frozen=True)
class _Meeting:
    """``value``: the operand's; ``taken``: whether a cotangent that is not 0 came in there."""

    at: Location
    operation: str
    entries: int
    value: float
    taken: bool


class _Hooked(TorchFunctionMode):
    """Every operation of the user's that records a node gets a hook; ``met``: those that broke, first ones first."""

    def __init__(self) -> None:
        super().__init__()
        self.met: dict[Location, _Meeting] = {}
        self._hooked: set[Any] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not is_user_file(frame.f_code.co_filename):
            frame = frame.f_back
        for out in tensors_in(result):
            node = out.grad_fn
            if frame is not None and node is not None and node not in self._hooked:
                self._hooked.add(node)
                self._watch(node, getattr(func, "__name__", ""), location_in(frame.f_code, frame.f_lasti), args)
        return result

    def _watch(self, node: Any, name: str, at: Location, args: Any) -> None:
        given = [tensor.detach() for tensor in tensors_in(args, 2)]
        if name in _QUOTIENTS:
            given.reverse()  # it is the denominator that matters

        def look(inward: Sequence[Tensor | None], outward: Sequence[Tensor | None]) -> None:
            if any(one is not None and not one.isfinite().all() for one in outward):
                return
            for cotangent in inward:
                if cotangent is None or cotangent.isfinite().all():
                    continue
                where = ~cotangent.isfinite()
                operand = next((one for one in given if one.shape == where.shape), None)
                if operand is None:
                    continue
                came = [one[where] for one in outward if one is not None and one.shape == where.shape]
                taken = any(bool((one != 0).any()) for one in came) or not came
                meeting = _Meeting(at, name.strip("_"), int(where.sum()), float(operand[where][0]), taken)
                self.met.setdefault(at, meeting)

        node.register_hook(look)


def undefined_gradients(
    subject: Subject, fn: Any, inputs: tuple[Any, ...], names: tuple[str, ...], limits: Limits
) -> Iterator[Fact]:
    """Facts about a plain function at ``inputs``: finite results whose gradient by autograd is NaN."""

    def look() -> list[Fact]:
        given = fresh(inputs)
        roots = [(name, one) for name, one in zip(names, given, strict=False) if differentiable(one)]
        with reproducible(0), torch.enable_grad():
            hooked = _Hooked()
            with hooked:
                result = fn(*given)
            outputs = [out for out in tensors_in(result) if out.requires_grad]
            if not outputs or not roots or not _finite([*given, *outputs]):
                return []
            ones = [torch.ones_like(out) for out in outputs]
            found = torch.autograd.grad(outputs, [one for _, one in roots], ones, allow_unused=True)
        spoilt = [name for (name, _), gradient in zip(roots, found, strict=True) if _has_nan(gradient)]
        return _facts(subject.id, hooked, spoilt, describe(inputs))

    yield from attempt(look, limits).value or ()


def undefined_gradients_of_function(use: FunctionUse, kept: Kept, limits: Limits) -> Iterator[Fact]:
    """The same of a Function whose backward differentiates by autograd itself, at the inputs of a real call."""
    code = getattr(inspect.unwrap(use.function.backward), "__code__", None)
    if code is None or "autograd.grad" not in text_of_file(code.co_filename):
        return

    def look() -> list[Fact]:
        given = fresh(kept.args)
        with reproducible(0), torch.no_grad():
            outputs, context = run_forward(use.function, given, kept.wanted)
            flat = outputs if isinstance(outputs, tuple) else (outputs,)
            if not _finite([*given, *flat]):
                return []
            hooked = _Hooked()
            with hooked:
                given_back = [None if out is None else torch.ones_like(out) for out in kept.with_cotangent(flat)]
                found = run_backward(use.function, context, given_back)
        names = input_names(use.function, len(found))
        spoilt = [name for name, gradient in zip(names, found, strict=True) if _has_nan(gradient)]
        return _facts(use.subject.id, hooked, spoilt, describe(kept.args))

    yield from attempt(look, limits).value or ()


def _facts(subject: str, hooked: _Hooked, spoilt: list[str], tried_on: str) -> list[Fact]:
    if not spoilt:
        return []
    return [
        UndefinedGradient(
            id=f"undefined gradient {met.at}:{met.at.column} {subject}",
            subject=subject,
            location=met.at,
            text=_text(met.at),
            operation=met.operation,
            entries=met.entries,
            value=met.value,
            taken=met.taken,
            input_name=spoilt[0],
            tried_on=tried_on,
        )
        for met in hooked.met.values()
        if met.at.end_line and not any(_is_within(other.at, met.at) for other in hooked.met.values())
    ]


def _is_within(inner: Location, outer: Location) -> bool:
    """What is made of a broken operand is broken too, and not the cause."""
    start, end = (inner.line, inner.column), (inner.end_line, inner.end_column)
    whole = (outer.line, outer.column), (outer.end_line, outer.end_column)
    return inner.path == outer.path and whole[0] <= start and end <= whole[1] and (start, end) != whole


def _text(at: Location) -> str:
    """The source of a place, on one line."""
    lines = text_of_file(at.path).splitlines()[at.line - 1 : at.end_line]
    if not lines:
        return ""
    lines[-1] = lines[-1][: at.end_column - 1]
    lines[0] = lines[0][at.column - 1 :]
    return " ".join(" ".join(lines).split())


def _finite(values: Sequence[Any]) -> bool:
    return all(bool(one.isfinite().all()) for one in values if isinstance(one, Tensor))


def _has_nan(value: Any) -> bool:
    return isinstance(value, Tensor) and bool(value.isnan().any())
