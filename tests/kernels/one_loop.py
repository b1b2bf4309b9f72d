"""Straight-line code in the smallest kernel there can be: one loop over all elements, called with tensors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache

import torch
from torch import Tensor

from gradwright.kernels.code.cpu_code import body
from gradwright.kernels.formula.program import Program
from gradwright.kernels.machine.compiling import Kernel, kernel

KINDS = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.bool: "bool",
}
REALS = {torch.float32: "float32", torch.float64: "float64"}
_KERNEL = """\
{constants}

def kernel(parameters):
    count = word(parameters, 3)
{addresses}
{before}
    for i in range(count):
{lines}
"""


def source(
    lines: Sequence[str],
    addresses: int,
    constants: Mapping[str, str] | None = None,
    before: Sequence[str] = (),
) -> str:
    """A kernel whose parameters are the number of elements, then so many addresses, ``a0, a1, ...``."""
    return _KERNEL.format(
        constants="\n".join(f"{name} = {value}" for name, value in (constants or {}).items()),
        addresses="\n".join(f"    a{k} = word(parameters, {4 + k})" for k in range(addresses)),
        before="\n".join(f"    {line}" for line in before),
        lines="\n".join(f"        {line}" for line in lines),
    )


def called(made: Kernel, count: int, tensors: Sequence[Tensor]) -> None:
    """Run it; the tensors are contiguous, in the order of the addresses."""
    words = torch.tensor([0, 0, 0, count, *[tensor.data_ptr() for tensor in tensors]])
    made(words.data_ptr())


@cache
def compiled(text: str) -> Kernel:
    return kernel(text, "test")


def computed(
    program: Program, precision: torch.dtype, invariant: Collection[str] = ()
) -> Callable[..., tuple[Tensor, ...]]:
    """What ``cpu_code.body`` makes of a program: a function of contiguous tensors of one shape (of that dtype, masks
    of bool; ``invariant`` ones have one element) that returns a tensor for each output."""
    names = {name: f"x{k}" for k, name in enumerate(program.inputs)}
    real = KINDS[precision]
    made = body(program, "f64" if real == "f64" else "f32", names, invariant)
    loads, first = [], []
    for k, name in enumerate(program.inputs):
        load = "load_bool" if name in program.conditions else f"load_{real}_as_{real}"
        if name in invariant:
            first.append(f"x{k} = {load}(a{k}, 0)")
        else:
            loads.append(f"x{k} = {load}(a{k}, i)")
    stores = [f"store_{real}_{k}(a{len(names) + k}, i, {value})" for k, value in enumerate(made.results)]
    text = source(
        [*loads, *made.lines, *stores],
        len(names) + len(stores),
        {name: f"{REALS[precision]}({value!r})" for name, value in made.constants.items()},
        [*first, *made.before],
    )
    machine_code = compiled(text)

    def run(*operands: Tensor) -> tuple[Tensor, ...]:
        like = next(operand for name, operand in zip(program.inputs, operands, strict=True) if name not in invariant)
        results = [torch.empty_like(like, dtype=precision) for _ in program.outputs]
        called(machine_code, like.numel(), [*operands, *results])
        return tuple(results)

    return run
