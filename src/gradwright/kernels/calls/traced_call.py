"""A call that is traced: its arguments as eager has them, its work as plain torch operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gradwright.ground.torch_versions.dynamo import constant_in_traces
from gradwright.kernels.autograd.traced import TorchCode, torch_code_of, traced
from gradwright.kernels.calls.checking import result_dtype
from gradwright.kernels.calls.definition import Definition, counting
from gradwright.kernels.calls.messages import refusal

_HALF = (torch.float16, torch.bfloat16)


def traced_call(definition: Definition, values: Mapping[str, Any], folded: Sequence[str]) -> Tensor:
    """``values``: of the inputs, by name, then of those that are ``folded``.

    What does not fit is refused as torch does it.
    """
    if not any(isinstance(value, Tensor) for value in values.values()):
        default = torch.get_default_dtype()
        values = {name: torch.ones((), dtype=default) * value for name, value in values.items()}
    tensors = [value for value in values.values() if isinstance(value, Tensor)]
    for name, value in values.items():
        if isinstance(value, Tensor) and value.is_complex():
            raise refusal(f"{name} is complex", why="a formula is of real numbers", do="hand over .real, .imag")
    dtype = result_dtype(values)
    precision = definition.accumulate
    if dtype is torch.float64 or any(tensor.dtype is torch.float64 for tensor in tensors):
        precision = torch.float64
    code = _code(definition, "weight" in folded, "mask" in folded)
    if definition.reduction == "none":
        return traced(code, list(values.values()), (), False, precision).to(dtype)
    if dtype in _HALF and torch.is_autocast_enabled(tensors[0].device.type):
        dtype = torch.float32
    shape = torch.broadcast_tensors(*tensors)[0].shape  # type: ignore[no-untyped-call]
    axes = tuple([axis for axis, is_summed in enumerate(definition.is_summed(len(shape))) if is_summed])
    total = traced(code, list(values.values()), axes, definition.keepdim, precision)
    if definition.reduction == "mean" and folded:
        each = [value.expand(shape) if isinstance(value, Tensor) else value for value in (values[n] for n in folded)]
        if not any(isinstance(value, Tensor) for value in each):
            each = [torch.ones(shape, dtype=precision, device=total.device) * each[0]]
        counts = _counting_code("weight" in folded, "mask" in folded)
        total = total / traced(counts, each, axes, definition.keepdim, precision)
    elif definition.reduction == "mean":
        for axis in axes:
            total = total / shape[axis]
    return total.to(dtype)


# NOTE [Constants of Dynamo]: code is made outside of what Dynamo traces, where it would trace the making. What such a
# function returns is nothing that Dynamo can guard on later, so it is only asked to be there, and read where it is
# kept. What it is handed must be constants too: not a Definition (torch 2.9), so it is one of the Definition's. An int
# that is read from an object is a symbol, where shapes are dynamic, and silently the wrong axis (torch 2.13); a bool is
# a constant.


def _code(definition: Definition, weighted: bool, masked: bool) -> TorchCode:
    definition.make_code(weighted, masked)
    code = definition.codes[weighted + 2 * masked]
    assert code is not None
    return code


def _counting_code(weighted: bool, masked: bool) -> TorchCode:
    _make_counting(weighted, masked)
    code = _COUNTING[weighted + 2 * masked]
    assert code is not None
    return code


@constant_in_traces
def _make_counting(weighted: bool, masked: bool) -> bool:
    place = weighted + 2 * masked
    if _COUNTING[place] is None:
        _COUNTING[place] = torch_code_of(counting(weighted, masked))
    return True


_COUNTING: list[TorchCode | None] = [None] * 4
