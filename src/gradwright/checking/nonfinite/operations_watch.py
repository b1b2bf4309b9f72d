"""The forward half: a function mode that looks at what each operation returns."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling
from torch.overrides import TorchFunctionMode

from gradwright.checking.nonfinite.forward_causes import forward_cause
from gradwright.checking.nonfinite.frames import Label, Place, frames_of_ours, owner, place_of, user_frame
from gradwright.checking.nonfinite.inside import cause_inside
from gradwright.checking.nonfinite.looks import (
    all_finite,
    any_nan,
    apart,
    first_entry,
    is_view_of_any,
    node_of,
    numbers_in,
    tensors_in,
    value_at,
    word,
)
from gradwright.checking.nonfinite.naming import name_of
from gradwright.checking.nonfinite.operations import (
    ENTRYWISE,
    LOGARITHMS,
    MAKERS,
    OF_FEATURES,
    SETTERS,
    UNINITIALISED,
    base_name,
    is_in_place,
)
from gradwright.checking.nonfinite.origins import Cause, NonfiniteBegin, Origin, Phase, first_of
from gradwright.ground.torch_versions.modes import len_torch_dispatch_stack

if TYPE_CHECKING:
    from gradwright.checking.nonfinite.watch import NonfiniteWatch

KEY = "gradwright: made by"
_GRADIENT_CALLS = frozenset({"backward", "grad"})
_GETTER = type(torch.Tensor.shape.__get__)  # type: ignore[attr-defined]  # torch's stub has no descriptors


class OperationMode(TorchFunctionMode):
    """On the stack of function modes while the watch is on. It passes through what it can't look at."""

    def __init__(self, watch: NonfiniteWatch) -> None:
        super().__init__()
        self._watch = watch

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if is_dynamo_compiling():  # Dynamo inlines what a mode does: nothing, then
            return function(*args, **kwargs)
        watch = self._watch
        if not watch.on or type(function) is _GETTER or len_torch_dispatch_stack():
            return function(*args, **kwargs)
        name = getattr(function, "__name__", "")
        if name in _GRADIENT_CALLS:
            with watch.mode_is_off():
                return function(*args, **kwargs)
        if name[-1:] == "_" and args and isinstance(args[0], Tensor) and is_in_place(function, kwargs):
            _look_before(watch, function, args[0], sys._getframe(1))
        out = function(*args, **kwargs)
        try:
            _look(watch, function, args, kwargs, out, sys._getframe(1))
        except Exception as error:
            watch.fault(error)
        return out


def _look(
    watch: NonfiniteWatch, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any, frame: FrameType
) -> None:
    made: Iterable[Tensor]
    if isinstance(out, Tensor):
        made = (out,)
    elif isinstance(out, (tuple, list)):
        made = tensors_in(out)
    elif out is None and getattr(function, "__name__", "") in SETTERS and isinstance(args[0], Tensor):
        made = (args[0],)
    else:
        return
    whose = owner(frame.f_code.co_filename)
    if whose == "optim":  # looked at as a whole, after the step
        return
    label: Label | None = None
    for one in made:
        node = node_of(one) if one.requires_grad else None
        if node is not None:
            label = label or _label(function, frame)
            if label is not None:
                metadata: Any = node.metadata  # a dict, which torch's stub calls a method
                metadata.setdefault(KEY, label)
        if not watch.ledger and is_view_of_any(one, args[:1]) and not is_in_place(function, kwargs):
            continue  # entries of what was looked at before, or will be where it is used
        if not all_finite(one):
            watch.recording = torch.is_grad_enabled()
            with apart():
                _not_finite(watch, function, args, kwargs, one, frame)
        elif watch.ledger:
            watch.ledger.clear(one)
        if whose == "scaler":
            watch.scaled.add(one)


def _look_before(watch: NonfiniteWatch, function: Any, tensor: Tensor, frame: FrameType) -> None:
    """What is written over, and may have been not finite already."""
    try:
        if owner(frame.f_code.co_filename) != "optim" and not all_finite(tensor):
            with apart():
                if watch.ledger.exactly(tensor) is None:
                    _given(watch, tensor, function, _label(function, frame), frame)
    except Exception as error:
        watch.fault(error)


def _label(function: Any, frame: FrameType) -> Label | None:
    users = user_frame(frame)
    return None if users is None else Label(operation_name(function), users.f_code, users.f_lasti)


def operation_name(function: Any) -> str:
    name = base_name(function)
    return {"truediv": "div", "rtruediv": "div", "rsub": "sub", "rpow": "pow"}.get(name, name)


def _not_finite(
    watch: NonfiniteWatch,
    function: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    out: Tensor,
    frame: FrameType,
) -> None:
    """Whose is it: its operands', or does it begin here?"""
    label = _label(function, frame)
    taken = [one for one in tensors_in([args, kwargs]) if one is not out and one.dtype not in (torch.bool,)]
    bad = [one for one in taken if not all_finite(one)]
    before = watch.ledger.origin(out) if is_in_place(function, kwargs) else None
    origins = [
        watch.ledger.origin(one) or watch.ledger.origin_behind(one) or _given(watch, one, function, label, frame)
        for one in bad
    ]
    first = first_of([*origins, before]) or _taken_by_a_kernel(watch, frame)
    if first is None:
        origin = _birth(watch, function, args, kwargs, out, label, None, frame)
    elif any_nan(out) and not any(any_nan(one) for one in bad) and (before is None or before.begin.value != "nan"):
        if first.begin.operation in LOGARITHMS and base_name(function) in OF_FEATURES:
            first.meant = False
        if first.meant:
            origin = _birth(watch, function, args, kwargs, out, label, first, frame)
        else:
            ours = frames_of_ours(frame)
            name = ours[-1].f_code.co_name if ours else operation_name(function)  # what the user has called
            first.became_nan(f"{name} at {place_in(label)}")
            origin = first
    elif first.meant and len(bad) == 1 and base_name(function) in ENTRYWISE and _elsewhere(bad[0], out):
        origin = _birth(watch, function, args, kwargs, out, label, None, frame, but=bad[0])
    else:
        origin = first
    watch.ledger.mark(out, origin)


def _taken_by_a_kernel(watch: NonfiniteWatch, frame: FrameType) -> Origin | None:
    """Our kernels read memory, which no operation tells of: what the calls of ours around it hold and is not finite."""
    if not watch.ledger:
        return None
    held = (one for ours in frames_of_ours(frame) for one in tensors_in(list(ours.f_locals.values())))
    return first_of(watch.ledger.origin(one) for one in held if not all_finite(one))


def _elsewhere(operand: Tensor, out: Tensor) -> bool:
    return operand.shape == out.shape and bool((~torch.isfinite(out.detach()) & torch.isfinite(operand.detach())).any())


def _birth(
    watch: NonfiniteWatch,
    function: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    out: Tensor,
    label: Label | None,
    out_of: Origin | None,
    frame: FrameType,
    but: Tensor | None = None,
) -> Origin:
    """``out_of``: the inf that a NaN was made of; ``but``: an operand whose own infs are not what began here."""
    name = base_name(function)
    entry = first_entry(out if but is None else torch.where(torch.isfinite(but), out, 0))
    place = place_in(label)
    taken = list(tensors_in([args, kwargs]))
    written = any(not math.isfinite(number) for number in numbers_in([args, kwargs]))
    shown: tuple[tuple[str, float], ...] = ()
    if name in UNINITIALISED:
        cause, meant = Cause("uninitialised", f"{name} leaves in place what the memory held before"), True
    elif out_of is None and (written or name in MAKERS or not taken) and not frames_of_ours(frame):
        cause, meant = Cause("constant", "It was written here as a constant"), True
    else:
        cause, shown = forward_cause(name, args, kwargs, out, entry, place.text)
        if cause.kind in ("unknown", "half-overflow", "overflow", "explosion"):
            cause = cause_inside(function, args, kwargs, place.text) or cause
        # The logarithm of a mask, of one-hot targets: an additive mask, as like as not.
        meant = name in LOGARITHMS and not any_nan(out) and not any(one.requires_grad for one in taken)
    value = value_at(out, entry, out.shape)
    in_backward = watch.depth > 0 and not watch.recording
    phase: Phase = "inside backward" if in_backward else "forward"
    begin = NonfiniteBegin(
        operation=operation_name(function),
        phase=phase,
        place=place,
        kind=cause.kind,
        value="nan" if value is None else word(value),
        entry=entry,
        shape=tuple(out.shape),
        why=cause.why,
        operands=shown,
        hints=cause.hints,
        backward_call=watch.backward_calls,
    )
    origin = Origin(begin, label, meant=meant)
    if out_of is not None and out_of.begin.phase != "given":
        origin.note(f"its {out_of.begin.value} came from {out_of.begin.operation} at {out_of.begin.place}")
    return origin


def _given(watch: NonfiniteWatch, tensor: Tensor, function: Any, label: Label | None, frame: FrameType) -> Origin:
    """A tensor that no watched operation made: data, a parameter, a buffer."""
    name = name_of(tensor, frame)
    what = f"`{name}`" if name else f"an operand of {operation_name(function)}"
    entry = first_entry(tensor)
    value = value_at(tensor, entry, tensor.shape)
    is_nan = any_nan(tensor)
    count = int((~torch.isfinite(tensor.detach())).sum())
    begin = NonfiniteBegin(
        operation=what,
        phase="given",
        place=place_in(label),
        kind="given",
        value="nan" if is_nan or value is None else word(value),
        entry=entry,
        shape=tuple(tensor.shape),
        why=f"{count} of its {tensor.numel()} entries are not finite where {operation_name(function)} takes it: no "
        "operation that was watched made them",
        hints=(
            "it was trained or loaded like that: look at the steps before, or at the checkpoint"
            if tensor.requires_grad and tensor.is_leaf
            else "look at the data: torch.isfinite(x).all() per batch, or torch.nan_to_num where that is right",
        ),
        backward_call=watch.backward_calls,
    )
    origin = Origin(begin, label, meant=not is_nan and not tensor.requires_grad)
    watch.ledger.mark(tensor, origin)
    return origin


def place_in(label: Label | None) -> Place:
    return Place("<unknown>", 1) if label is None else place_of(label)
