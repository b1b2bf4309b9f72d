"""Inside a function of torch's that is made of several operations: which of them it was."""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import Any

import torch
from torch import Tensor

from gradwright.checking.nonfinite.forward_causes import forward_cause
from gradwright.checking.nonfinite.looks import all_finite, first_entry, tensors_in
from gradwright.checking.nonfinite.origins import Cause
from gradwright.ground.random_states import RandomState, drawn_from, generator_devices
from gradwright.ground.torch_versions.modes import TorchDispatchMode

# What they do to running statistics or to their input can't be done twice.
_ONCE = ("batch_norm", "instance_norm", "ctc_loss")


class _FirstNotFinite(TorchDispatchMode):  # type: ignore[no-untyped-call]  # as torch wrote it
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # as torch wrote it
        self.cause: Cause | None = None
        self._over = False

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        out = function(*args, **kwargs)
        if not self._over and isinstance(out, Tensor) and not all_finite(out):
            name = function.overloadpacket.__name__.strip("_")
            written = any(isinstance(value, float) and value - value != 0 for value in args)
            taken = written or not all(map(all_finite, tensors_in([args, kwargs])))
            if taken and "softmax" not in name:
                return out
            self._over = True
            self.cause = forward_cause(name, args, kwargs, out, first_entry(out), "")[0]
        return out


def cause_inside(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], text: str) -> Cause | None:
    """Run it once more, its random numbers apart, and look at every step. ``None`` where that may not be, or shows
    nothing. Cost: several times the call's own."""
    name = getattr(function, "__name__", "")
    if not isinstance(function, FunctionType) or name in _ONCE or kwargs.get("inplace") or name.endswith("_"):
        return None
    if function.__module__ not in ("torch.nn.functional", "torch.functional"):
        return None
    look = _FirstNotFinite()
    try:
        with drawn_from(RandomState.now(generator_devices(*tensors_in(args)))), torch.no_grad(), look:
            function(*args, **kwargs)
    except Exception:
        return None
    if look.cause is None or look.cause.kind == "unknown":
        return None
    return look.cause
