"""The call as plain torch operations: what torch.compile, torch.export and torch.jit trace.

Value and gradients are torch code of the same programs, so that a gradient at a kink or in a branch not taken is what
it is in eager. Nothing here knows a shape before it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gradwright.kernels.code.torch_code import torch_function
from gradwright.kernels.formula.program import Program

Code = Callable[..., tuple[Tensor, ...]]


class TorchCode(NamedTuple):
    """``value``: of the inputs. ``gradients``: of the inputs and the cotangent, one for each input that is no mask."""

    value: Code
    gradients: Code
    is_mask: tuple[bool, ...]


def torch_code_of(program: Program) -> TorchCode:
    """Of a program with one output."""
    is_mask = tuple(name in program.conditions for name in program.inputs)
    back = program.vjp([not mask for mask in is_mask], (False,))
    return TorchCode(torch_function(program), torch_function(back), is_mask)


class _Traced(torch.autograd.Function):
    """``apply`` takes a TorchCode, the axes that are summed, whether they stay (with length 1), and the tensors, in the
    dtype to compute in."""

    # Where nothing requires a gradient, Dynamo counts the parameters to find out whether there is a ctx: only a
    # signature of one is never mistaken.
    @staticmethod
    def forward(*handed: Any) -> Tensor:
        ctx, code, axes, keepdim, *tensors = handed
        ctx.save_for_backward(*tensors)
        ctx.code, ctx.axes, ctx.keepdim = code, axes, keepdim
        value: Tensor = torch.broadcast_tensors(code.value(*tensors)[0], *tensors)[0]  # type: ignore[no-untyped-call]
        return value.sum(axes, keepdim=keepdim) if axes else value.clone()

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor | None, ...]:
        tensors: Sequence[Tensor] = ctx.saved_tensors
        if not ctx.keepdim:
            for axis in ctx.axes:
                cotangent = cotangent.unsqueeze(axis)
        found = iter(ctx.code.gradients(*tensors, cotangent))
        rows: list[Tensor | None] = []
        for tensor, is_mask in zip(tensors, ctx.code.is_mask, strict=True):
            if is_mask:
                rows.append(None)
            else:
                whole = torch.broadcast_tensors(next(found), cotangent, *tensors)[0]  # type: ignore[no-untyped-call]
                rows.append(whole.sum_to_size(tensor.shape))
        return None, None, None, *rows


def traced(
    code: TorchCode, operands: Sequence[Any], axes: tuple[int, ...], keepdim: bool, precision: torch.dtype
) -> Tensor:
    """The value of the code, summed over axes (none, where ``axes`` is empty), in the dtype ``precision``."""
    device = next(operand.device for operand in operands if isinstance(operand, Tensor))
    device = next((o.device for o in operands if isinstance(o, Tensor) and o.ndim), device)
    tensors: list[Tensor] = []
    for operand, is_mask in zip(operands, code.is_mask, strict=True):
        if not isinstance(operand, Tensor):
            # Dynamo compiles anew for each number that makes a tensor, but not for each that multiplies one.
            tensor = torch.ones((), dtype=precision, device=device) * operand
        elif is_mask:
            tensor = operand
        else:
            tensor = operand.to(precision)
        # Dynamo takes no Function of one tensor in two places.
        tensors.append(tensor.view_as(tensor) if any(tensor is before for before in tensors) else tensor)
    return _Traced.apply(code, axes, keepdim, *tensors)  # type: ignore[no-untyped-call,no-any-return]
