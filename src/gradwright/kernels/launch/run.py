"""The one door to the back ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import torch
from torch import Tensor

from gradwright.kernels.formula.program import Program
from gradwright.kernels.launch.compiled import compiled_launch
from gradwright.kernels.launch.plain import PlainLaunch
from gradwright.kernels.launch.plan import Plan
from gradwright.kernels.launch.results import Operand, Result, full_shape, precision_of, require_fitting
from gradwright.kernels.launch.triton import NoTritonKernel, available, triton_launch
from gradwright.kernels.launch.walks import KINDS
from gradwright.kernels.machine.compiling import NoMachineCode, is_suspended

MANY_LAUNCHES = 2_048
_PLAIN: Final = (Tensor, torch.nn.Parameter)


class Launch(Protocol):
    """A call, prepared for operands and results of the same types, dtypes, devices, shapes and strides."""

    def run(self, operands: Sequence[Operand], results: Sequence[Result]) -> tuple[Tensor, ...]: ...

    def plan(self) -> Plan: ...


_LAUNCHES: dict[tuple[object, ...], Launch] = {}


def run(
    program: Program, operands: Sequence[Operand], results: Sequence[Result], precision: torch.dtype | None = None
) -> tuple[Tensor, ...]:
    """The outputs of a program as tensors; not differentiable itself.

    No operand is lazily negated (``is_neg()``): the memory of such a tensor does not hold its numbers.
    ``precision``: float32 or float64, in which is computed; float64, where a tensor or a result is, and float32 else.
    """
    return launch_of(program, operands, results, precision).run(operands, results)


def launch_of(
    program: Program, operands: Sequence[Operand], results: Sequence[Result], precision: torch.dtype | None = None
) -> Launch:
    """What ``run`` runs for operands and results of these kinds, prepared once."""
    key = (
        program.key,
        precision,
        *[(type(o), o.dtype, o.device, o.shape, o.stride()) if isinstance(o, Tensor) else None for o in operands],
        *[
            (r.shape, r.dtype, r.removed, r.factor is None, None if r.like is None else r.like.stride())
            for r in results
        ],
    )
    launch = _LAUNCHES.get(key)
    if launch is None:
        if len(_LAUNCHES) >= MANY_LAUNCHES:
            _LAUNCHES.clear()
        launch = _prepared(program, operands, results, precision)
        if not is_suspended():
            _LAUNCHES[key] = launch
    return launch


def _prepared(
    program: Program, operands: Sequence[Operand], results: Sequence[Result], precision: torch.dtype | None
) -> Launch:
    require_fitting(full_shape(operands), results)
    precision = precision or precision_of(operands, results)
    if why := _not_for_a_kernel(operands):
        return PlainLaunch(program, precision, why)
    try:
        if all(operand.device.type == "cpu" for operand in operands if isinstance(operand, Tensor)):
            return compiled_launch(program, operands, results, precision)
        return triton_launch(program, operands, results, precision)
    except (NoMachineCode, NoTritonKernel) as reason:
        return PlainLaunch(program, precision, str(reason))


def _not_for_a_kernel(operands: Sequence[Operand]) -> str | None:
    tensors = [operand for operand in operands if isinstance(operand, Tensor)]
    for tensor in tensors:
        if type(tensor) not in _PLAIN:
            return f"{type(tensor).__name__} is a subclass of Tensor, which sees torch's operations only"
        if tensor.dtype not in KINDS:
            return f"there are no kernels for {tensor.dtype}"
        if tensor.device.type != "cpu" and (why := available(tensor.device)):
            return why
    if not tensors or 0 in full_shape(operands):
        return "there is nothing to go through"
    return None
