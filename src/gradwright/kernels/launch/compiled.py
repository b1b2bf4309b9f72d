"""The back end of a CPU: kernels of machine code, over blocks that threads take one after the other.

NOTE [Prepared launches]: everything that the dtypes, shapes and strides of a call decide (the walk through memory, the
kernel, its parameters, where sums go) is worked out once and kept; a call fills in addresses and numbers.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import torch
from torch import Tensor

from gradwright.kernels.code.layout import BYTES, Loops, Read, Step, Written, named
from gradwright.kernels.code.loops import SLOTS, kernel_source
from gradwright.kernels.formula.program import Program
from gradwright.kernels.launch.geometry import Geometry, Strides, dense_strides, geometry_of, memory_order
from gradwright.kernels.launch.outcomes import Outcome, Summed, Total, Whole, WholeThenSummed
from gradwright.kernels.launch.plan import Plan
from gradwright.kernels.launch.results import Operand, Result, full_shape
from gradwright.kernels.launch.walks import KINDS, strides_of_operand, strides_of_result
from gradwright.kernels.machine import pool
from gradwright.kernels.machine.compiling import Kernel, NoMachineCode, kernel

# See NOTE [Blocks]. 16,384 float32 are 64 KiB a tensor: a few of them lie in a core's second cache.
BLOCK = 16_384
COLUMNS_OF_SUMS = 2_048  # where columns are summed: their sums (float64) stay in the first cache
PARTS = 32  # into which the rows are cut, at most, where columns are summed
FEW_ROWS = 16

# Elements times (operations + tensors), up to which the calling thread does it all: some 40 us of work, from which on
# another thread pays (measured with ``machine.pool`` on two cores).
SERIAL = 2_000_000


@dataclass(frozen=True)
class CompiledLaunch:
    """A prepared call; see NOTE [Prepared launches]."""

    loops: Loops
    geometry: Geometry
    kernel: Kernel
    outcomes: tuple[Outcome, ...]
    template: array[int]
    tensors: tuple[tuple[int, int], ...]  # (operand, the word of its address)
    numbers: tuple[tuple[int, int], ...]  # (operand, its word)
    made: tuple[int, ...]  # the word of each result's address
    blocks: int
    work: int
    full: tuple[int, ...]

    @property
    def threads(self) -> int:
        return 1 if self.work <= SERIAL else min(torch.get_num_threads(), self.blocks)

    def source(self) -> str:
        """The text of the kernel."""
        return kernel_source(self.loops)

    def plan(self) -> Plan:
        """What it does, for people."""
        names = self.loops.program.inputs
        shown = [name.removeprefix("_") for name in names]  # ours: _cotangent_0
        reads = [_told(name, read.kind, read.step) for name, read in zip(shown, self.loops.reads, strict=True)]
        writes = [_WAYS[write.way].format(kind=write.kind) for write in self.loops.writes]
        kinds = [walker.kind for walker in self.loops.reads] + [walker.kind for walker in self.loops.writes]
        moved = [
            _elements(self.geometry.sizes, path) * BYTES.get(kind, 0)
            for kind, path in zip(kinds, self.geometry.strides, strict=True)
        ]
        return Plan(
            backend="numba",
            precision="float32" if self.loops.precision == "f32" else "float64",
            shape=self.full,
            rows=self.geometry.rows,
            columns=self.geometry.columns,
            blocks=self.blocks,
            threads=self.threads,
            bytes=sum(moved),
            reads=tuple(reads),
            writes=tuple(writes),
            origin=self.kernel.origin,
            seconds=self.kernel.seconds,
        )

    def run(self, operands: Sequence[Operand], results: Sequence[Result]) -> tuple[Tensor, ...]:
        words = array("q", self.template)
        for place, word in self.tensors:
            words[word] = operands[place].data_ptr()  # type: ignore[union-attr]  # ``tensors`` are those that are
        if self.numbers:
            reals = memoryview(words).cast("B").cast("d")
            for place, word in self.numbers:
                reals[word] = operands[place]  # type: ignore[assignment]  # and ``numbers`` are those
        places = [outcome.place() for outcome in self.outcomes]
        for word, (address, _) in zip(self.made, places, strict=True):
            words[word] = address
        pool.run(self.kernel, words, words.buffer_info()[0], self.threads)
        return tuple(
            outcome.finish(memory, result)
            for outcome, (_, memory), result in zip(self.outcomes, places, results, strict=True)
        )


_KERNELS: dict[tuple[object, ...], Kernel] = {}


def compiled_launch(
    program: Program, operands: Sequence[Operand], results: Sequence[Result], precision: torch.dtype
) -> CompiledLaunch:
    """The prepared launch for calls with operands and results of these kinds. Raises NoMachineCode, where no kernel can
    be had."""
    if len(results) > SLOTS:
        raise NoMachineCode(f"a kernel has at most {SLOTS} results, and {len(results)} are asked for")
    full = full_shape(operands)
    steps = [strides_of_operand(operand, full) for operand in operands]
    order = memory_order(full, steps)
    ways = [strides_of_result(result, full, order) for result in results]
    written = [not result.summed_axes(full) for result in results]
    while True:
        geometry = geometry_of(full, order, [*steps, *ways])
        paths = geometry.strides[len(steps) :]
        whole = [k for k, path in enumerate(paths) if not written[k] and path[-1] and any(path[:-1])]
        if not whole:
            break
        for k in whole:  # sums of no simple kind are written in full, and summed by torch
            ways[k], written[k] = dense_strides(full, order), True
    reads = [_read(operand, path) for operand, path in zip(operands, geometry.strides, strict=False)]
    writes: list[Written] = []
    outcomes: list[Outcome] = []
    shape = _Blocks.of(geometry, any(not w and path[-1] for w, path in zip(written, paths, strict=True)))
    for result, path, way, is_written in zip(results, paths, ways, written, strict=True):
        summed = result.summed_axes(full)
        if is_written and not summed:
            step: Step = "any" if path[-1] > 1 else "one"  # 0: of a single column
            stored = result.dtype if result.factor is None else precision
            writes.append(Written("written", KINDS[stored], step, any(path[:-1])))
            left = [axis for axis in range(len(full)) if axis not in result.removed]
            outcomes.append(Whole(result.final, tuple(way[axis] for axis in left), stored))
        elif is_written:
            writes.append(Written("written", KINDS[precision], "one" if path[-1] == 1 else "any", any(path[:-1])))
            outcomes.append(WholeThenSummed(full, way, precision, summed, result.final))
        elif not any(path):
            writes.append(Written("total"))
            outcomes.append(Total(shape.count, result.final))
        else:
            kept = tuple(axis for axis in order if axis not in summed)
            sizes = tuple(full[axis] for axis in kept)
            if path[-1]:
                writes.append(Written("columns"))
                parts: tuple[int, ...] = (shape.row_blocks, geometry.columns)
                rest: tuple[int, ...] = (0,)
            else:
                writes.append(Written("rows"))
                parts = (*geometry.sizes[:-1], shape.segments)
                rest = tuple(axis for axis, pace in enumerate(path) if not pace)  # the last one: the segments
            outcomes.append(Summed(parts, rest, kept, sizes, result.final))
    kind: Literal["f32", "f64"] = "f64" if precision == torch.float64 else "f32"
    loops = Loops(program, kind, tuple(reads), tuple(writes), len(geometry.sizes) - 1)
    return _filled(loops, geometry, shape, outcomes, full)


def _filled(
    loops: Loops, geometry: Geometry, shape: _Blocks, outcomes: Sequence[Outcome], full: tuple[int, ...]
) -> CompiledLaunch:
    words = loops.words()
    known = {
        "blocks": shape.count,
        "rows": geometry.rows,
        "columns": geometry.columns,
        "rows a block": shape.rows,
        "columns a block": shape.columns,
        "segments": shape.segments,
        **{f"size {axis}": size for axis, size in enumerate(geometry.sizes[:-1])},
    }
    names = [*named("x", loops.reads), *named("r", loops.writes)]
    for name, path in zip(names, geometry.strides, strict=True):
        known[f"{name} step"] = path[-1]
        known.update({f"{name} row step {axis}": step for axis, step in enumerate(path[:-1])})
    at = {word: place for place, word in enumerate(words)}
    return CompiledLaunch(
        loops,
        geometry,
        _kernel(loops),
        tuple(outcomes),
        array("q", [known.get(word, 0) for word in words]),
        tuple((k, at[f"x{k} address"]) for k, read in enumerate(loops.reads) if read.kind != "real"),
        tuple((k, at[f"x{k} number"]) for k, read in enumerate(loops.reads) if read.kind == "real"),
        tuple(at[f"r{k} address"] for k in range(len(loops.writes))),
        shape.count,
        geometry.rows * geometry.columns * (loops.program.operations + len(names)),
        full,
    )


def _kernel(loops: Loops) -> Kernel:
    key = (loops.program.key, loops.precision, loops.reads, loops.writes, loops.row_axes)
    if key not in _KERNELS:
        _KERNELS[key] = kernel(kernel_source(loops), "kernel")
    return _KERNELS[key]


@dataclass(frozen=True)
class _Blocks:
    """See NOTE [Blocks]."""

    rows: int
    columns: int
    row_blocks: int
    segments: int

    @property
    def count(self) -> int:
        return self.row_blocks * self.segments

    @staticmethod
    def of(geometry: Geometry, columns_are_summed: bool) -> _Blocks:
        if columns_are_summed:
            columns = min(geometry.columns, COLUMNS_OF_SUMS)
            rows = max(BLOCK // columns, -(-geometry.rows // PARTS))
        elif geometry.rows <= FEW_ROWS:  # which then lie in each other's lines of cache, more often than not
            columns = min(geometry.columns, BLOCK // geometry.rows)
            rows = geometry.rows
        else:
            columns = min(geometry.columns, BLOCK)
            rows = BLOCK // columns
        rows = min(rows, geometry.rows)
        return _Blocks(rows, columns, -(-geometry.rows // rows), -(-geometry.columns // columns))


_STEPS: Final[dict[Step, str]] = {"still": "one for many elements", "one": "in order", "any": "with jumps"}
_WAYS: Final[dict[str, str]] = {
    "written": "every element, as {kind}",
    "total": "one sum",
    "rows": "a sum for each row",
    "columns": "a sum for each column",
}


def _told(name: str, kind: str, step: Step) -> str:
    return f"{name}: a number" if kind == "real" else f"{name}: {kind}, {_STEPS[step]}"


def _elements(sizes: Sequence[int], path: Strides) -> int:
    return math.prod(size for size, step in zip(sizes, path, strict=True) if step)


def _read(operand: Operand, path: Strides) -> Read:
    if not isinstance(operand, Tensor):
        return Read("real")
    return Read(KINDS[operand.dtype], _step(path[-1]), any(path[:-1]))


def _step(stride: int) -> Step:
    return "still" if stride == 0 else "one" if stride == 1 else "any"
