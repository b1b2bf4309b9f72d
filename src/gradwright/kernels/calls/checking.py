"""May these values go into one formula together? Asked once for each signature of a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from gradwright.kernels.calls.messages import listed, refusal, told

Shape = tuple[int, ...]


def require_kinds(values: Mapping[str, Any], folded: Sequence[str], where: str) -> None:
    """UsageError, where one is neither a real tensor with strides nor a number, or a folded mask is no bool tensor."""
    for place, (name, value) in enumerate(values.items(), 1):
        if name == "mask" and "mask" in folded:
            _require_mask(value, where)
        else:
            _require_number(name, value, f"{where}, input {place} ({name})")


def require_fit(values: Mapping[str, Any], where: str) -> Shape:
    """The shape to which the inputs broadcast. Raises: UsageError, where they do not, or lie on several devices."""
    tensors = {name: value for name, value in values.items() if isinstance(value, Tensor)}
    _require_one_device(tensors, where)
    return _broadcast(tensors, where)


def _require_mask(value: Any, where: str) -> None:
    if not isinstance(value, Tensor):
        raise refusal(f"mask is {told(value)}", where=where, do="hand over a tensor of dtype bool")
    if value.dtype is not torch.bool:
        raise refusal(f"mask is {told(value)}", where=where, why="a mask says yes or no", do="compare: mask=mask != 0")
    _require_number("mask", value, where)  # with strides


def _require_number(name: str, value: Any, where: str) -> None:
    if isinstance(value, Tensor):
        if value.is_complex():
            raise refusal(
                f"{name} is {told(value)}", where=where, why="a formula is of real numbers", do="hand over .real, .imag"
            )
        if value.is_quantized:
            raise refusal(f"{name} is quantized", where=where, do=f"hand over {name}.dequantize()")
        if value.is_nested:
            raise refusal(f"{name} is nested", where=where, do=f"hand over {name}.values(), or padded, with a mask")
        if value.layout is not torch.strided:
            raise refusal(
                f"{name} is sparse ({value.layout})",
                where=where,
                why="of a zero that is not stored the formula need not be zero",
                do=f"hand over {name}.to_dense()",
            )
        return
    if not isinstance(value, Real):
        do = f"torch.as_tensor({name})" if isinstance(value, (list, tuple)) or hasattr(value, "__array__") else ""
        raise refusal(
            f"{name} is {told(value)}",
            where=where,
            why="an input is a tensor or a real number",
            do=f"hand over {do}" if do else "hand over a tensor, an int or a float",
        )


def _require_one_device(tensors: Mapping[str, Tensor], where: str) -> None:
    # As in torch, a CPU tensor without axes goes with any device.
    bound = {name: value for name, value in tensors.items() if value.ndim or value.device.type != "cpu"}
    if len({value.device for value in bound.values()}) > 1:
        (first, one), *rest = bound.items()
        other, far = next((name, value) for name, value in rest if value.device != one.device)
        raise refusal(
            f"{first} is on {one.device}, {other} on {far.device}",
            where=where,
            do=f"move one: {other}.to({str(one.device)!r})",
        )


def _broadcast(tensors: Mapping[str, Tensor], where: str) -> Shape:
    full: list[int] = []  # from the last axis to the first
    owner: list[str] = []
    for name, value in tensors.items():
        for back, size in enumerate(reversed(value.shape)):
            if back == len(full):
                full.append(size)
                owner.append(name)
            elif full[back] == 1:
                full[back], owner[back] = size, name
            elif size not in (1, full[back]):
                shapes = [f"{known} {list(tensors[known].shape)}" for known in (owner[back], name)]
                raise refusal(
                    f"{listed(shapes)} do not broadcast",
                    where=f"{where}, axis -{back + 1}: {full[back]} and {size}",
                    why="axes are lined up from the last one; each must be as long as the other's, or of length 1",
                    do=f"give {name} an axis of length 1 where it has none: {name}.unsqueeze(-1)"
                    if value.ndim
                    else f"check {name}",
                )
    return tuple(reversed(full))


def result_dtype(values: Mapping[str, Any]) -> torch.dtype:
    """As torch promotes: tensors with axes count before those without, and those before Python numbers; integers and
    numbers alone give torch's default dtype."""
    tensors = [value for value in values.values() if isinstance(value, Tensor)]
    for group in ([t for t in tensors if t.ndim], [t for t in tensors if not t.ndim]):
        floats = [tensor.dtype for tensor in group if tensor.is_floating_point()]
        if floats:
            found = floats[0]
            for dtype in floats[1:]:
                found = torch.promote_types(found, dtype)
            return found
    return torch.get_default_dtype()
