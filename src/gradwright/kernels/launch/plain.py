"""The back end that is always there: torch's own operations, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from gradwright.kernels.code.torch_code import torch_function
from gradwright.kernels.formula.program import Program
from gradwright.kernels.launch.plan import Plan
from gradwright.kernels.launch.results import Operand, Result, full_shape


@dataclass(frozen=True)
class PlainLaunch:
    """A prepared call. ``why``: no kernel is used."""

    program: Program
    precision: torch.dtype
    why: str

    def plan(self) -> Plan:
        """What it does, for people."""
        return Plan("torch", self.why, str(self.precision).removeprefix("torch."))

    def run(self, operands: Sequence[Operand], results: Sequence[Result]) -> tuple[Tensor, ...]:
        full = full_shape(operands)
        device = _device(operands)
        with torch.no_grad(), without_autocast(device):
            wide = [
                operand.to(self.precision)
                if isinstance(operand, Tensor) and name not in self.program.conditions
                else operand
                for name, operand in zip(self.program.inputs, operands, strict=True)
            ]
            values = torch_function(self.program)(*wide)
            return tuple(
                _as_asked(value.to(device=device, dtype=self.precision).expand(full), result)
                for value, result in zip(values, results, strict=True)
            )


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """In which operations keep their operands' dtypes."""
    known = torch.amp.is_autocast_available(device.type)
    return torch.autocast(device.type, enabled=False) if known else nullcontext()


def _device(operands: Sequence[Operand]) -> torch.device:
    """That of the tensors; a CPU tensor without axes goes with any."""
    devices = [operand.device for operand in operands if isinstance(operand, Tensor)]
    return next((device for device in devices if device.type != "cpu"), torch.device("cpu"))


def _as_asked(whole: Tensor, result: Result) -> Tensor:
    if axes := result.summed_axes(whole.shape):
        whole = whole.sum(axes, keepdim=True, dtype=None if whole.device.type == "mps" else torch.float64)
    if result.factor is not None:
        whole = whole * result.factor
    like = result.like
    if like is not None and like.shape == result.shape and not result.removed:
        return torch.empty_like(like, dtype=result.dtype).copy_(whole)
    whole = whole.reshape(result.final)
    return torch.empty_like(whole, dtype=result.dtype).copy_(whole)
