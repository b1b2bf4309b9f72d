"""A row program on an NVIDIA accelerator: one Triton kernel; see ``code.triton_rows``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

import torch
from torch import Tensor

from gradwright.kernels.code.triton_rows import RowKernel, RowWalk, steps_of
from gradwright.kernels.formula.stages import RowProgram
from gradwright.kernels.launch.plan import Plan
from gradwright.kernels.launch.results import Operand
from gradwright.kernels.launch.row_geometry import Lines, Steps, lines_of
from gradwright.kernels.launch.triton import on_device, warmed_up
from gradwright.kernels.launch.walks import KINDS
from gradwright.kernels.machine.triton_functions import NoTritonKernel, available, triton_function

TILE: Final = 2048  # elements of an instance
MANY_SUMMED: Final = 4096  # classes up to which each instance writes its sums
_NARROW: Final = (1 << 31) - TILE  # places up to which 32 bits do


@dataclass(frozen=True)
class TritonRows:
    """A prepared call. ``paths``: of the operands, then of the results."""

    kernel: RowKernel
    lines: Lines
    paths: tuple[Steps, ...]
    made: tuple[_Made, ...]
    device: torch.device

    @property
    def rows(self) -> int:
        return self.lines.batches * self.lines.positions

    @cached_property
    def tile(self) -> tuple[int, int]:
        """Rows and classes of an instance, both powers of 2."""
        width = min(TILE, 1 << max(0, self.lines.classes - 1).bit_length())
        return TILE // width, width

    @property
    def blocks(self) -> int:
        return -(-self.rows // self.tile[0])

    def plan(self) -> Plan:
        """What it does, for people."""
        kernel = self.kernel
        names = [name for name, _ in kernel.program.inputs]
        return Plan(
            backend="triton",
            precision="float32" if kernel.precision == "f32" else "float64",
            shape=(self.lines.batches, self.lines.classes, self.lines.positions),
            rows=self.rows,
            columns=self.lines.classes,
            blocks=self.blocks,
            bytes=self._moved(),
            reads=tuple(f"{names[place]}: {kernel.reads[place].kind}" for place in kernel.used),
            writes=tuple(f"one for each {walk.axes}, as {walk.kind}" for walk in kernel.writes),
        )

    def _moved(self) -> int:
        walks = [self.kernel.reads[place] for place in self.kernel.used]
        walks += [walk for walk in self.kernel.writes if walk.axes in ("element", "row")]
        return self.lines.moved((walk.axes, walk.kind) for walk in walks)

    def run(self, operands: Sequence[Operand]) -> list[Tensor]:
        memories = [made.memory(self) for made in self.made]
        with on_device(self.device):
            self._function[(self.blocks,)](*self._arguments(operands, memories), **self._options())
        return [made.finished(memory) for made, memory in zip(self.made, memories, strict=True)]

    def compile(self, operands: Sequence[Operand]) -> None:
        """Makes the machine code now, without a launch. Raises NoTritonKernel."""
        memories = [made.memory(self) for made in self.made]
        warmed_up(
            self.device,
            lambda: self._function.warmup(*self._arguments(operands, memories), grid=(self.blocks,), **self._options()),
        )

    @cached_property
    def _function(self) -> Any:
        return triton_function(self.kernel.source())

    def _options(self) -> dict[str, Any]:
        return {"ROWS": self.tile[0], "WIDTH": self.tile[1], "enable_fp_fusion": False}

    def _arguments(self, operands: Sequence[Operand], memories: Sequence[Tensor]) -> list[Any]:
        """In the order of ``RowKernel.parameters``."""
        handed: list[Any] = []
        for place in self.kernel.used:
            operand = self.lines.ready(place, operands[place])
            handed.append(operand if isinstance(operand, Tensor) else float(operand))
        steps = [self.paths[place][axis] for _, place, axis in self.kernel.steps()]
        return [*handed, *memories, *steps, self.lines.classes, self.lines.positions, self.rows]


@dataclass(frozen=True)
class _Made:
    """What a result is written into."""

    way: str
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    dtype: torch.dtype = torch.float64

    def memory(self, launch: TritonRows) -> Tensor:
        if self.way in ("element", "row"):
            return torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device=launch.device)
        shape = (launch.blocks, launch.lines.classes) if self.way == "class" else (launch.blocks,)
        return torch.empty(shape, dtype=torch.float64, device=launch.device)

    def finished(self, memory: Tensor) -> Tensor:
        if self.way == "total":
            return memory.sum()
        return memory.sum(0) if self.way == "class" else memory


def triton_rows(
    program: RowProgram,
    operands: Sequence[Operand],
    dim: int,
    dtypes: Sequence[torch.dtype],
    precision: torch.dtype,
) -> TritonRows:
    """The prepared and compiled launch for operands of these kinds. Raises NoTritonKernel.

    Cost: the first one of a program, half a second and more for Triton's compiler; later ones come from its cache.
    """
    device = _device(program, operands)
    if why := available(device):
        raise NoTritonKernel(why)
    launch = prepared(program, operands, dim, dtypes, precision)
    launch.compile(operands)
    return launch


def prepared(
    program: RowProgram,
    operands: Sequence[Operand],
    dim: int,
    dtypes: Sequence[torch.dtype],
    precision: torch.dtype,
) -> TritonRows:
    """The launch, not compiled yet. Raises NoTritonKernel."""
    device = _device(program, operands)
    lines = lines_of(program, operands, dim)
    if not lines.batches * lines.classes * lines.positions:
        raise NoTritonKernel("there are no elements")
    if lines.classes > MANY_SUMMED and any(result.way == "class" for result in program.results):
        raise NoTritonKernel(f"sums over rows of more than {MANY_SUMMED:,} classes")
    reads = []
    for (_, axes), operand, path in zip(program.inputs, operands, lines.steps, strict=True):
        if isinstance(operand, Tensor):
            reads.append(RowWalk(axes, KINDS[operand.dtype], steps_of(axes, path)))
        else:
            reads.append(RowWalk(axes, "real"))
    of_elements = iter(dtypes)
    writes, made, paths = [], [], []
    for result in program.results:
        if result.way in ("element", "row"):
            dtype = next(of_elements)
            shape, strides, path = lines.result(result.way)
            writes.append(RowWalk(result.way, KINDS[dtype], steps_of(result.way, path)))
            made.append(_Made(result.way, shape, strides, dtype))
            paths.append(path)
        else:
            writes.append(RowWalk(result.way, "f64"))
            made.append(_Made(result.way))
            paths.append({})
    real: Literal["f32", "f64"] = "f64" if precision == torch.float64 else "f32"
    whole = (*lines.steps, *paths)
    kernel = RowKernel(
        program,
        real,
        tuple(reads),
        tuple(writes),
        is_long=lines.classes > TILE,
        is_wide=_farthest(lines, whole) >= _NARROW,
    )
    return TritonRows(kernel, lines, whole, tuple(made), device)


def _farthest(lines: Lines, paths: Sequence[Steps]) -> int:
    """The largest number that a place is computed with."""
    sizes = lines.sizes
    ends = [sum((sizes[axis] - 1) * abs(step) for axis, step in path.items()) for path in paths]
    return max(math.prod(sizes.values()), *ends)


def _device(program: RowProgram, operands: Sequence[Operand]) -> torch.device:
    """The one that all tensors are on."""
    devices = {operand.device for operand in operands if isinstance(operand, Tensor)}
    if len(devices) != 1:
        raise NoTritonKernel(f"the operands are on {', '.join(sorted(map(str, devices)))}")
    return devices.pop()
