"""What an elementwise function shows of itself: its derivatives, its plan, the code of its kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from gradwright.ground.torch_versions import ties
from gradwright.kernels.autograd.fusion import Fusion
from gradwright.kernels.calls.definition import Definition
from gradwright.kernels.calls.prepared import Prepared
from gradwright.kernels.code.torch_code import torch_source
from gradwright.kernels.code.triton_code import triton_source
from gradwright.kernels.formula.derivatives import pulled_back, with_derivative
from gradwright.kernels.formula.expression import constant, in_order
from gradwright.kernels.formula.spelling import spelled
from gradwright.kernels.launch.compiled import CompiledLaunch
from gradwright.kernels.launch.plan import Plan

Backend = Literal["numba", "triton", "torch"]
SAMPLE = 1_000_000  # elements


def sample(definition: Definition) -> list[Any]:
    """Inputs of a typical call: float32 vectors that want gradients, numbers where the formula has defaults."""
    return [
        definition.defaults[name] if name in definition.defaults else torch.zeros(SAMPLE).requires_grad_()
        for name in definition.names
    ]


def text_of(definition: Definition, plan: Plan) -> str:
    """Formula, the derivative of every input, and what a call runs on."""
    slopes = pulled_back((definition.output,), (constant(1.0),), definition.names)
    width = max(len(name) for name in definition.names)
    over = "" if definition.dim is None else f" over dim {', '.join(map(str, definition.dim))}"
    reduced = {"none": "one result for each element", "sum": f"the sum{over}", "mean": f"the mean{over}"}
    return "\n".join(
        [
            f"{definition.name}({', '.join(definition.names)}): {reduced[definition.reduction]} of",
            *[f"  {line}" for line in definition.text.strip().splitlines()],
            "its derivative by",
            *[f"  {name:<{width}}  {spelled(slope)}" for name, slope in zip(definition.names, slopes, strict=True)],
            *_slopes_at_bounds(definition),
            f"inputs of {SAMPLE:,} float32 elements on a CPU go through",
            *[f"  {line}" for line in str(plan).splitlines()],
        ]
    )


def _slopes_at_bounds(definition: Definition) -> list[str]:
    """A line on what the torch that is there has on bounds that are numbers, and one on others; of those that occur."""
    clamps = [node for node in in_order((definition.output,), with_derivative) if node.operation == "clamp"]
    by_numbers = {all(bound.is_constant() for bound in node.arguments[1:]) for node in clamps}
    lines = []
    if True in by_numbers:
        lines.append(f"on a bound of clamp the slope is {int(ties.find_ties().passes_at_numbers)}")
    if False in by_numbers:
        slopes = "1/2, and the bound's 1/2" if ties.find_ties().shares_with_tensors else "1, and the bound's 0"
        lines.append(f"on a bound of clamp that is made of inputs the slope is {slopes}")
    return [f"{line}, as in torch {torch.__version__}" for line in lines]


def passes(ready: Prepared, values: Sequence[Any]) -> list[tuple[str, Fusion, Sequence[Any]]]:
    """The launches of a call and its backward, in their order, each with what it is for and its operands."""
    fusion, operands, is_one_pass = ready.first_launch(values)
    wanted = tuple(isinstance(o, Tensor) and o.requires_grad for o in operands[: fusion.count])
    own, factors = operands[: fusion.count], operands[fusion.count :]
    if True not in wanted:
        return [("value", fusion, operands)]
    if is_one_pass:
        return [("value and gradients", fusion.both(wanted), [*own, 1.0, *factors, *factors])]
    cotangent = torch.zeros(fusion.outputs[0].kept, dtype=fusion.outputs[0].dtype, device=_device(own))
    back = fusion.back((True,), wanted)
    return [("value", fusion, operands), ("gradients", back, [*own, cotangent, *factors])]


def source_of(backend: Backend, ready: Prepared, values: Sequence[Any]) -> str:
    """The code of a call's launches, one after the other, each under a comment that says what it is for."""
    parts = []
    for what, fusion, operands in passes(ready, values):
        if backend == "torch":
            code = torch_source(fusion.program)
        elif backend == "triton":
            code = triton_source(fusion.program)
        else:
            launch = fusion.launch(operands)
            code = launch.source() if isinstance(launch, CompiledLaunch) else f"# none: {launch.plan().why}\n"
        parts.append(f"# {what}\n{code}")
    return "\n\n".join(parts)


def _device(operands: Sequence[Any]) -> torch.device:
    devices = [operand.device for operand in operands if isinstance(operand, Tensor)]
    return next((device for device in devices if device.type != "cpu"), torch.device("cpu"))
