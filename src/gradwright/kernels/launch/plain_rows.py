"""A row program by torch's own operations, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gradwright.kernels.code.torch_code import torch_function
from gradwright.kernels.formula.expression import Expression
from gradwright.kernels.formula.stages import CLASS, RowProgram
from gradwright.kernels.launch.plain import without_autocast
from gradwright.kernels.launch.plan import Plan
from gradwright.kernels.launch.results import Operand


@dataclass(frozen=True)
class PlainRows:
    """A prepared call. ``why``: no kernel is used."""

    program: RowProgram
    dim: int
    dtypes: tuple[torch.dtype, ...]
    precision: torch.dtype
    why: str

    def plan(self) -> Plan:
        return Plan("torch", self.why, str(self.precision).removeprefix("torch."))

    def run(self, operands: Sequence[Operand]) -> list[Tensor]:
        lead = next(
            operand
            for (_, axes), operand in zip(self.program.inputs, operands, strict=True)
            if axes == "element" and isinstance(operand, Tensor)
        )
        with torch.no_grad(), without_autocast(lead.device):
            return self._run(operands, lead)

    def _run(self, operands: Sequence[Operand], lead: Tensor) -> list[Tensor]:
        along = [1] * lead.ndim
        along[self.dim] = lead.shape[self.dim]
        values: dict[str, Operand] = {}
        for (name, axes), operand in zip(self.program.inputs, operands, strict=True):
            if isinstance(operand, Tensor):
                operand = operand.to(self.precision)
                if axes == "row":
                    operand = operand.unsqueeze(self.dim)
                if axes == "class":
                    operand = operand.view(along)
            values[name] = operand
        numbers = torch.arange(lead.shape[self.dim], device=lead.device)
        values[CLASS] = numbers.to(self.precision).view(along)
        for group in self.program.groups:
            for stage in group:
                found = self._value(stage.formula, values, lead)
                if stage.how == "row":
                    values[stage.name] = found
                    continue
                whole = found.expand(lead.shape)
                if stage.how == "max":
                    least = whole.new_full((*lead.shape[: self.dim], 1, *lead.shape[self.dim + 1 :]), -torch.inf)
                    values[stage.name] = torch.cat([least, whole], self.dim).amax(self.dim, keepdim=True)
                elif stage.how == "sum":
                    values[stage.name] = whole.sum(self.dim, keepdim=True)
                else:
                    is_there = values[stage.place] == values[CLASS]
                    values[stage.name] = torch.where(is_there, whole, 0.0).sum(self.dim, keepdim=True)  # type: ignore[arg-type]  # a place is a row's tensor
        dtypes = iter(self.dtypes)
        results = []
        for result in self.program.results:
            found = self._value(result.formula, values, lead)
            rows = [1 if axis == self.dim else size for axis, size in enumerate(lead.shape)]
            whole = found.expand(rows if result.way in ("row", "total") else lead.shape)
            if result.way == "element":
                results.append(torch.empty_like(lead, dtype=next(dtypes)).copy_(whole))
            elif result.way == "row":
                results.append(whole.squeeze(self.dim).to(next(dtypes)).contiguous())
            elif result.way == "total":
                results.append(whole.sum(dtype=_widest(whole)))
            else:
                others = [axis for axis in range(lead.ndim) if axis != self.dim]
                results.append(whole.sum(others, dtype=_widest(whole)) if others else whole.to(_widest(whole)))
        return results

    def _value(self, formula: Expression, values: dict[str, Operand], lead: Tensor) -> Tensor:
        found = torch_function(self.program.formulas([formula]))(*values_in_order(self.program, values))[0]
        return found.to(device=lead.device, dtype=self.precision)


def values_in_order(program: RowProgram, values: dict[str, Operand]) -> list[Operand]:
    """Of all that a formula may name; of what is not there yet, and is not read, 0."""
    return [values.get(name, 0.0) for name in program.formulas([]).inputs]


def _widest(tensor: Tensor) -> torch.dtype:
    return tensor.dtype if tensor.device.type == "mps" else torch.float64
