"""The back end of an NVIDIA accelerator: one Triton kernel, one pass over memory.

Sums over everything are made in the kernel, block by block, and added up in float64; a sum over some axes is written
whole, in the precision of the computation, and summed by torch: another pass, of which ``plan`` tells.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, cast

import torch
from torch import Tensor

from gradwright.kernels.code.triton_code import Kernel, Step, Walk
from gradwright.kernels.code.triton_operations import Precision
from gradwright.kernels.formula.program import Program
from gradwright.kernels.launch.geometry import Geometry, Strides, dense_strides, geometry_of, memory_order
from gradwright.kernels.launch.plan import Plan
from gradwright.kernels.launch.results import Operand, Result, full_shape
from gradwright.kernels.launch.walks import KINDS, strides_of_operand, strides_of_result
from gradwright.kernels.machine.triton_functions import NoTritonKernel as NoTritonKernel
from gradwright.kernels.machine.triton_functions import available as available
from gradwright.kernels.machine.triton_functions import triton_function

BLOCK: Final = 1024  # elements of an instance: as many float32 numbers are summed before float64 takes over
_BYTES: Final = {kind: dtype.itemsize for dtype, kind in KINDS.items()}
_NARROW: Final = (1 << 31) - BLOCK  # places up to which 32 bits do


@dataclass(frozen=True)
class TritonLaunch:
    """A prepared call, for operands and results of the same types, dtypes, devices, shapes and strides."""

    kernel: Kernel
    device: torch.device
    full: tuple[int, ...]
    geometry: Geometry
    made: tuple[_Made, ...]

    @property
    def elements(self) -> int:
        return self.geometry.rows * self.geometry.columns

    @property
    def blocks(self) -> int:
        return -(-self.elements // BLOCK)

    def plan(self) -> Plan:
        """What it does, for people."""
        program = self.kernel.program
        reads = [f"{program.inputs[place]}: {_told(self.kernel.reads[place])}" for place in self.kernel.used]
        return Plan(
            backend="triton",
            precision="float32" if self.kernel.precision == "f32" else "float64",
            shape=self.full,
            rows=self.geometry.rows,
            columns=self.geometry.columns,
            blocks=self.blocks,
            bytes=self._moved_bytes(),
            reads=tuple(reads),
            writes=tuple(made.told for made in self.made),
        )

    def _moved_bytes(self) -> int:
        paths = self.geometry.strides
        moved = [(self.kernel.reads[place].kind, paths[place]) for place in self.kernel.used]
        moved += [
            (KINDS[made.dtype], path) for made, path in zip(self.made, paths[len(self.kernel.reads) :], strict=True)
        ]
        return sum(
            _BYTES.get(kind, 0) * math.prod(size for size, step in zip(self.geometry.sizes, path, strict=True) if step)
            for kind, path in moved
        )

    def run(self, operands: Sequence[Operand], results: Sequence[Result]) -> tuple[Tensor, ...]:
        memories = [made.memory(self.device, self.blocks) for made in self.made]
        with on_device(self.device):
            self._function[(self.blocks,)](*self._arguments(operands, memories), BLOCK=BLOCK, enable_fp_fusion=False)
        return tuple(
            made.finish(memory, result) for made, memory, result in zip(self.made, memories, results, strict=True)
        )

    def compile(self, operands: Sequence[Operand]) -> None:
        """Makes the machine code now, without a launch. Raises NoTritonKernel."""
        memories = [made.memory(self.device, self.blocks) for made in self.made]
        warmed_up(
            self.device,
            lambda: self._function.warmup(
                *self._arguments(operands, memories), BLOCK=BLOCK, grid=(self.blocks,), enable_fp_fusion=False
            ),
        )

    @cached_property
    def _function(self) -> Any:
        return triton_function(self.kernel.source())

    def _arguments(self, operands: Sequence[Operand], memories: Sequence[Tensor]) -> list[Any]:
        """In the order of ``Kernel.parameters``."""
        handed: list[Any] = [
            float(operands[place]) if self.kernel.reads[place].kind == "real" else operands[place]
            for place in self.kernel.used
        ]
        return [*handed, *memories, *self._steps, *self.geometry.sizes[1:], self.elements]

    @cached_property
    def _steps(self) -> list[int]:
        """The strides that are parameters."""
        paths = self.geometry.strides
        walks = [(self.kernel.reads[place], paths[place]) for place in self.kernel.used]
        walks += [
            (walk, path)
            for walk, path in zip(self.kernel.writes, paths[len(self.kernel.reads) :], strict=True)
            if walk is not None
        ]
        return [
            stride
            for walk, path in walks
            if walk.kind != "real"
            for step, stride in zip(walk.steps, path, strict=True)
            if step == "any"
        ]


@dataclass(frozen=True)
class _Made:
    """What a kernel writes for one result, and how that becomes the tensor that was asked for.

    ``path``: along the full shape; ``None`` where it is one sum of each block. ``shape``, ``strides``: of the tensor
    that is written into. ``summed``: the axes over which torch sums it.
    """

    path: Strides | None
    shape: tuple[int, ...]
    strides: Strides
    dtype: torch.dtype
    summed: tuple[int, ...] = ()

    @property
    def told(self) -> str:
        if self.path is None:
            return "one sum"
        kind = f"every element, as {KINDS[self.dtype]}"
        return f"{kind}; torch sums them over {self.summed} afterwards" if self.summed else kind

    def memory(self, device: torch.device, blocks: int) -> Tensor:
        if self.path is None:
            return torch.empty(blocks, dtype=torch.float64, device=device)
        return torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device=device)

    def finish(self, memory: Tensor, result: Result) -> Tensor:
        if self.path is not None and not self.summed:
            return memory if result.factor is None else memory.mul_(result.factor)
        sums = memory.sum() if self.path is None else memory.sum(self.summed, dtype=torch.float64)
        made = torch.empty(result.final, dtype=result.dtype, device=memory.device)
        return made.copy_((sums if result.factor is None else sums * result.factor).reshape(result.final))


def triton_launch(
    program: Program, operands: Sequence[Operand], results: Sequence[Result], precision: torch.dtype
) -> TritonLaunch:
    """The prepared and compiled launch for calls with operands and results of these kinds. Raises NoTritonKernel.

    ``precision``: float32 or float64. A CPU tensor without axes counts as a number.
    Cost: the first one of a formula, half a second and more for Triton's compiler; later ones come from its cache.
    """
    launch = prepared(program, operands, results, precision)
    launch.compile(operands)
    return launch


def prepared(
    program: Program, operands: Sequence[Operand], results: Sequence[Result], precision: torch.dtype
) -> TritonLaunch:
    """The launch, not compiled yet."""
    full = full_shape(operands)
    steps = [strides_of_operand(operand, full) for operand in operands]
    order = memory_order(full, steps)
    kind: Precision = "f32" if precision == torch.float32 else "f64"
    made = [_made(result, full, order, precision) for result in results]
    still: Strides = (0,) * len(full)
    geometry = geometry_of(full, order, [*steps, *[still if each.path is None else each.path for each in made]])
    axes = len(geometry.sizes)
    kernel = Kernel(
        program,
        kind,
        tuple(_read(operand, path) for operand, path in zip(operands, geometry.strides, strict=False)),
        tuple(
            None if each.path is None else Walk(KINDS[each.dtype], _steps(path))
            for each, path in zip(made, geometry.strides[len(operands) :], strict=True)
        ),
        axes,
        is_wide=_farthest(geometry) >= _NARROW,
    )
    return TritonLaunch(kernel, _device(operands), full, geometry, tuple(made))


def _made(result: Result, full: tuple[int, ...], order: tuple[int, ...], precision: torch.dtype) -> _Made:
    summed = result.summed_axes(full)
    if summed and all(size == 1 for size in result.shape):
        return _Made(None, (), (), torch.float64)
    if summed:
        path = dense_strides(full, order)
        return _Made(path, full, path, precision, summed)
    path = strides_of_result(result, full, order)
    strides = tuple(stride for axis, stride in enumerate(path) if axis not in result.removed)
    return _Made(path, result.final, strides, result.dtype)


def _read(operand: Operand, path: Strides) -> Walk:
    return Walk("real", ()) if _is_number(operand) else Walk(KINDS[cast("Tensor", operand).dtype], _steps(path))


def _is_number(operand: Operand) -> bool:
    return not isinstance(operand, Tensor) or (operand.dim() == 0 and operand.device.type == "cpu")


def _steps(path: Strides) -> tuple[Step, ...]:
    return tuple("still" if stride == 0 else "one" if stride == 1 else "any" for stride in path)


def _farthest(geometry: Geometry) -> int:
    """The largest number that a place is computed with."""
    ends = [
        sum((size - 1) * abs(stride) for size, stride in zip(geometry.sizes, path, strict=True))
        for path in geometry.strides
    ]
    return max(geometry.rows * geometry.columns, *ends)


def _device(operands: Sequence[Operand]) -> torch.device:
    """The one that all tensors with axes are on."""
    devices = {operand.device for operand in operands if isinstance(operand, Tensor) and not _is_number(operand)}
    if len(devices) != 1:
        raise NoTritonKernel(f"the operands are on {', '.join(sorted(map(str, devices))) or 'no device'}")
    return devices.pop()


def on_device(device: torch.device) -> contextlib.AbstractContextManager[object]:
    """Triton launches on the current device."""
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()


def warmed_up(device: torch.device, warm_up: Callable[[], object]) -> None:
    """Triton's machine code is made. Raises NoTritonKernel, where it is not."""
    try:
        with on_device(device):
            warm_up()
    except Exception as error:  # whatever Triton's compiler, ptxas or the C compiler of its launcher raise
        said = str(error).strip().splitlines()
        raise NoTritonKernel(f"Triton made no kernel: {type(error).__name__}: {said[0] if said else ''}") from error


def _told(walk: Walk) -> str:
    if walk.kind == "real":
        return "a number"
    if walk.stands_still:
        return f"{walk.kind}, one for many elements"
    return f"{walk.kind}, {'in order' if walk.steps[-1] == 'one' else 'with jumps'}"
