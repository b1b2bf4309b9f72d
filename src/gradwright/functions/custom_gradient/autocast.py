"""The backward runs under the autocast of its forward, whatever is on when it runs (as torch.amp.custom_bwd has it)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor

from gradwright.ground.torch_versions.dynamo import constant_in_traces, uncompiled_throughout

# Device type, on or off, dtype.
Autocast = tuple[tuple[str, bool, torch.dtype], ...]


def autocast_of(tensors: Iterable[Tensor]) -> Autocast:
    """Autocast as it stands, for the devices of these tensors; empty where it is off for all of them."""
    devices = sorted({tensor.device.type for tensor in tensors if _has_autocast(tensor.device.type)})
    found = tuple((d, torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in devices)
    return found if any(enabled for _, enabled, _ in found) else ()


@contextmanager
def under(autocast: Autocast) -> Iterator[None]:
    """Autocast as it stood; off on every device that it does not tell of."""
    stood = {device for device, _, _ in autocast}
    on = [d for d in _device_kinds() if d not in stood and _has_autocast(d) and torch.is_autocast_enabled(d)]
    with ExitStack() as stack:
        for device, enabled, dtype in autocast:
            stack.enter_context(torch.autocast(device, dtype=dtype, enabled=enabled))
        for device in on:
            stack.enter_context(torch.autocast(device, enabled=False))
        yield


@constant_in_traces  # Dynamo of torch 2.9 can't trace the question, nor compile it
@uncompiled_throughout
def _has_autocast(device: str) -> bool:
    return torch.amp.is_autocast_available(device)


@constant_in_traces
@uncompiled_throughout
def _device_kinds() -> tuple[str, ...]:
    """Those that torch names, and the one that a package may have added ("npu", say)."""
    accelerator = torch.accelerator.current_accelerator()
    return _NAMED if accelerator is None or accelerator.type in _NAMED else (*_NAMED, accelerator.type)


_NAMED = ("cpu", "cuda", "xpu", "mps", "hpu", "mtia")
