"""A row program on tensors: the kernel of a CPU or of an accelerator, or torch's operations, one after the other."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, Protocol

import torch
from torch import Tensor

from gradwright.ground.torch_versions.modes import get_tracing_state, len_torch_dispatch_stack
from gradwright.ground.torch_versions.tensors import is_zerotensor
from gradwright.kernels.code.row_layout import RowLoops, RowRead, RowWritten, Walk, named
from gradwright.kernels.code.row_loops import fits, positions_a_run, row_kernel_source
from gradwright.kernels.code.row_writer import RUN, SIDE_BY_SIDE
from gradwright.kernels.formula.stages import RowProgram
from gradwright.kernels.launch.outcomes import exact_sum
from gradwright.kernels.launch.plain_rows import PlainRows
from gradwright.kernels.launch.plan import Plan
from gradwright.kernels.launch.results import Operand
from gradwright.kernels.launch.row_geometry import Lines, lines_of
from gradwright.kernels.launch.triton_rows import triton_rows
from gradwright.kernels.launch.walks import KINDS
from gradwright.kernels.machine import pool
from gradwright.kernels.machine.compiling import Kernel, NoMachineCode, is_suspended, kernel
from gradwright.kernels.machine.triton_functions import NoTritonKernel

BLOCK: Final = 65_536  # elements in a block, some 256 KiB of float32: a few of them lie in a core's second cache
PARTS: Final = 32  # blocks at most, where classes are summed
MANY_CLASSES: Final = 2**24  # a float32 counts no further
MANY_LAUNCHES: Final = 1_024
LONG_RUN: Final = 128  # rows
FEW_CLASSES: Final = 24  # below which a row is too short for an inner loop of its own
SERIAL: Final = 1_000_000  # as in ``compiled``
_PLAIN: Final = (Tensor, torch.nn.Parameter)


class RowLaunch(Protocol):
    """A call, prepared for operands of the same dtypes, devices, shapes and strides."""

    def run(self, operands: Sequence[Operand]) -> list[Tensor]: ...

    def plan(self) -> Plan: ...


_LAUNCHES: dict[tuple[object, ...], RowLaunch] = {}


def run_rows(program: RowProgram, operands: Sequence[Operand], dim: int, dtypes: Sequence[torch.dtype]) -> list[Tensor]:
    """The results of a row program, whose rows lie along the axis ``dim``; not differentiable itself.

    Operands: one for each input. Elements: tensors of one shape; rows: of that shape without ``dim``; classes: of shape
    [C]; numbers: Python's. ``dtypes``: of the results for elements and rows (those summed are float64: a scalar, [C]).
    """
    there = [_there(operand) for operand in operands]
    return row_launch_of(program, there, dim, dtypes).run(there)


def _there(operand: Operand) -> Operand:
    """With its numbers where a kernel looks for them: torch negates, and makes zeros, when they are needed."""
    if isinstance(operand, Tensor) and (operand.is_neg() or is_zerotensor(operand)):
        return operand.resolve_neg().clone()
    return operand


def row_launch_of(
    program: RowProgram, operands: Sequence[Operand], dim: int, dtypes: Sequence[torch.dtype]
) -> RowLaunch:
    """What ``run_rows`` runs for operands of these kinds, prepared once."""
    if len_torch_dispatch_stack() or get_tracing_state() is not None:
        return PlainRows(program, dim, tuple(dtypes), _precision(operands, dtypes), "torch's operations are watched")
    key = (
        program.key,
        dim,
        *dtypes,
        *[(type(o), o.dtype, o.device, o.shape, o.stride()) if isinstance(o, Tensor) else None for o in operands],
    )
    launch = _LAUNCHES.get(key)
    if launch is None:
        if len(_LAUNCHES) >= MANY_LAUNCHES:
            _LAUNCHES.clear()
        launch = _prepared(program, operands, dim, tuple(dtypes))
        if not is_suspended():
            _LAUNCHES[key] = launch
    return launch


def _precision(operands: Sequence[Operand], dtypes: Sequence[torch.dtype]) -> torch.dtype:
    found = [operand.dtype for operand in operands if isinstance(operand, Tensor)]
    return torch.float64 if torch.float64 in (*found, *dtypes) else torch.float32


def _prepared(program: RowProgram, operands: Sequence[Operand], dim: int, dtypes: tuple[torch.dtype, ...]) -> RowLaunch:
    precision = _precision(operands, dtypes)
    try:
        _require_kernel(program, operands, dim)
        if any(isinstance(operand, Tensor) and operand.device.type == "cuda" for operand in operands):
            return triton_rows(program, operands, dim, dtypes, precision)
        return _compiled(program, operands, dim, dtypes, precision)
    except (NoMachineCode, NoTritonKernel) as reason:
        return PlainRows(program, dim, dtypes, precision, str(reason))


def _require_kernel(program: RowProgram, operands: Sequence[Operand], dim: int) -> None:
    for (_, axes), operand in zip(program.inputs, operands, strict=True):
        if not isinstance(operand, Tensor):
            continue
        if operand.device.type not in ("cpu", "cuda"):
            raise NoMachineCode(f"there are no kernels of rows for {operand.device.type}")
        if type(operand) not in _PLAIN:
            raise NoMachineCode(f"{type(operand).__name__} is a subclass of Tensor, which sees torch's operations only")
        if operand.dtype not in KINDS:
            raise NoMachineCode(f"there are no kernels for {operand.dtype}")
        if axes == "element" and operand.shape[dim] >= MANY_CLASSES:
            raise NoMachineCode(f"a row has at most {MANY_CLASSES:,} elements")


@dataclass(frozen=True)
class CompiledRows:
    """A prepared call. ``copied``: operands whose axes have to be put in order first."""

    loops: RowLoops
    lines: Lines
    kernel: Kernel
    template: array[int]
    tensors: tuple[tuple[int, int], ...]  # (operand, the word of its address)
    numbers: tuple[tuple[int, int], ...]
    made: tuple[int, ...]  # the word of each result's address
    places: tuple[_Place, ...]
    blocks: int
    work: int

    @property
    def threads(self) -> int:
        return 1 if self.work <= SERIAL else min(torch.get_num_threads(), self.blocks)

    def source(self) -> str:
        """The text of the kernel."""
        return row_kernel_source(self.loops)

    def plan(self) -> Plan:
        walks = [(read.axes, read.kind) for read in self.loops.reads]
        written = [(write.way, write.kind) for write in self.loops.writes if write.way in ("element", "row")]
        names = [name for name, _ in self.loops.program.inputs]
        return Plan(
            backend="numba",
            precision="float32" if self.loops.precision == "f32" else "float64",
            shape=(self.lines.batches, self.lines.classes, self.lines.positions),
            rows=self.lines.batches * self.lines.positions,
            columns=self.lines.classes,
            blocks=self.blocks,
            threads=self.threads,
            bytes=self.lines.moved([*walks, *written]),
            reads=tuple(
                f"{name}: {read.kind}, {_TOLD[read.axes]}" for name, read in zip(names, self.loops.reads, strict=True)
            ),
            writes=tuple(_WRITTEN[write.way].format(kind=write.kind) for write in self.loops.writes),
            origin=self.kernel.origin,
            seconds=self.kernel.seconds,
        )

    def run(self, operands: Sequence[Operand]) -> list[Tensor]:
        given = [self.lines.ready(place, operand) for place, operand in enumerate(operands)]
        words = array("q", self.template)
        for place, word in self.tensors:
            words[word] = given[place].data_ptr()  # type: ignore[union-attr]  # ``tensors`` are those that are
        if self.numbers:
            reals = memoryview(words).cast("B").cast("d")
            for place, word in self.numbers:
                reals[word] = given[place]  # type: ignore[assignment]  # and ``numbers`` are those
        memories = [place.memory() for place in self.places]
        for word, memory in zip(self.made, memories, strict=True):
            words[word] = memory.data_ptr()
        if self.blocks:
            pool.run(self.kernel, words, words.buffer_info()[0], self.threads)
        return [place.finished(memory) for place, memory in zip(self.places, memories, strict=True)]


_TOLD: Final = {
    "element": "every element",
    "row": "one for each row",
    "class": "one for each class",
    "number": "a number",
}
_WRITTEN: Final = {
    "element": "every element, as {kind}",
    "row": "one for each row, as {kind}",
    "class": "a sum for each class",
    "total": "one sum",
}


@dataclass(frozen=True)
class _Place:
    """What a result is written into. ``way``: as a result's."""

    way: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype

    def memory(self) -> Tensor:
        if self.way in ("element", "row"):
            return torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device="cpu")
        return torch.empty(self.shape, dtype=torch.float64, device="cpu")

    def finished(self, memory: Tensor) -> Tensor:
        if self.way == "total":
            return torch.tensor(exact_sum(memory.tolist()), dtype=torch.float64, device="cpu")
        return memory.sum(0) if self.way == "class" else memory


def _compiled(
    program: RowProgram,
    operands: Sequence[Operand],
    dim: int,
    dtypes: tuple[torch.dtype, ...],
    precision: torch.dtype,
) -> CompiledRows:
    lines = lines_of(program, operands, dim)
    elements = [steps for (_, axes), steps in zip(program.inputs, lines.steps, strict=True) if axes == "element"]
    side_by_side = all(steps["class"] == 1 for steps in elements) and lines.classes > 1
    walk: Walk = "along" if side_by_side and lines.classes >= FEW_CLASSES else "across"
    inner = "class" if walk == "along" else "position"
    reads = []
    for (_, axes), operand, steps in zip(program.inputs, operands, lines.steps, strict=True):
        kind = KINDS[operand.dtype] if isinstance(operand, Tensor) else "real"
        reads.append(RowRead(axes, kind, steps.get(inner, 1) == 1))
    results = iter(dtypes)
    writes, places, paths = [], [], []
    blocks = lines.blocked(BLOCK, PARTS if any(r.way == "class" for r in program.results) else 0, walk == "across")
    for result in program.results:
        if result.way in ("element", "row"):
            dtype = next(results)
            shape, strides, steps = lines.result(result.way)
            writes.append(RowWritten(result.way, KINDS[dtype], steps.get(inner, 1) == 1))
            places.append(_Place(result.way, shape, strides, dtype))
            paths.append(steps)
        else:
            shape = (blocks.total, lines.classes) if result.way == "class" else (blocks.total,)
            writes.append(RowWritten(result.way))
            places.append(_Place(result.way, shape, (), torch.float64))
            paths.append({})
    real: Literal["f32", "f64"] = "f64" if precision == torch.float64 else "f32"
    run = positions_a_run(lines.classes, real)
    is_dense = all(r.is_dense for r in reads) and all(w.is_dense for w in writes)
    if is_dense and (run < LONG_RUN or not program.stages):
        run = 0  # nothing has to be packed or held: long runs are worth more than a scratch buffer
    loops = RowLoops(program, real, walk, tuple(reads), tuple(writes), walk == "across" and run > 0)
    if not fits(loops):
        loops = replace(loops, is_narrow=False)
    if not fits(loops):
        raise NoMachineCode("a kernel of rows has no room for so many stages and results")
    known = {
        "blocks": blocks.total,
        "classes": lines.classes,
        "positions": lines.positions,
        "positions a block": blocks.positions,
        "segments": blocks.segments,
        # Without stages nothing of a run has to stay in the first cache.
        "positions a run": run if loops.is_narrow else SIDE_BY_SIDE if program.stages else RUN,
    }
    names = [*named("x", reads), *named("r", writes)]
    for name, steps in zip(names, [*lines.steps, *paths], strict=True):
        known.update({f"{name} {axis} step": step for axis, step in steps.items()})
    words = loops.words()
    at = {word: place for place, word in enumerate(words)}
    return CompiledRows(
        loops,
        lines,
        _kernel(loops),
        array("q", [known.get(word, 0) for word in words]),
        tuple((k, at[f"x{k} address"]) for k, read in enumerate(reads) if read.kind != "real"),
        tuple((k, at[f"x{k} number"]) for k, read in enumerate(reads) if read.kind == "real"),
        tuple(at[f"r{k} address"] for k in range(len(writes))),
        tuple(places),
        blocks.total,
        lines.batches * lines.classes * lines.positions * (program.operations + len(names)),
    )


_KERNELS: dict[tuple[object, ...], Kernel] = {}


def _kernel(loops: RowLoops) -> Kernel:
    key = (loops.program.key, loops.precision, loops.walk, loops.reads, loops.writes, loops.is_narrow)
    if key not in _KERNELS:
        _KERNELS[key] = kernel(row_kernel_source(loops), "kernel")
    return _KERNELS[key]
