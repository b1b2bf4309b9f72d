"""A step within which nobody may wait for the device: CUDA refuses that; a dry run knows what would wait by name."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from tests.devices import IS_DRY
from tests.losses.unread import no_number_is_looked_at
from torch.overrides import TorchFunctionMode

_READS = {"item", "tolist", "cpu", "numpy", "nonzero", "argwhere", "masked_select", "unique", "equal", "allclose"}
_READS |= {"__bool__", "__float__", "__int__", "__index__", "is_nonzero"}


class _Refusing(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        is_moved = name in ("tensor", "as_tensor") and isinstance(kwargs.get("device"), torch.device)
        is_counted = (name == "__getitem__" and _has_mask(args[1])) or (name == "where" and len(args) == 1)
        if name in _READS or is_moved or is_counted:
            raise RuntimeError(f"called a synchronizing operation: {name}")
        return func(*args, **kwargs)


def _has_mask(index: Any) -> bool:
    """The shape of what a mask chooses depends on its values."""
    given = index if isinstance(index, tuple) else (index,)
    return any(isinstance(one, torch.Tensor) and one.dtype is torch.bool for one in given)


@contextmanager
def nobody_waits() -> Iterator[None]:
    """RuntimeError ("synchronizing") at what waits for the device. In a dry run the CPU is taken for one."""
    with ExitStack() as stack:
        if IS_DRY:
            stack.enter_context(no_number_is_looked_at())
            stack.enter_context(_Refusing())
        else:
            torch.cuda.synchronize()
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")  # "a prototype, and does not yet detect all"
            torch.cuda.set_sync_debug_mode("error")
            stack.callback(torch.cuda.set_sync_debug_mode, "default")
        yield
