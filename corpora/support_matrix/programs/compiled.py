"""torch.compile. `record` runs these cells with Inductor too, and refuses to differ."""

from __future__ import annotations

from typing import Any

import torch
from torch import func

from ..row import row
from .transforms import summed
from .values import constant, leaf

SECTION = "torch.compile, fullgraph=True if nothing else is said"
BACKEND = "aot_eager"


def whole(function: Any, fullgraph: bool = True) -> Any:
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=fullgraph, backend=BACKEND)


@row(SECTION, "compile, and backward")
def compiled(column: Any) -> tuple[Any, Any]:
    """`square` inside a compiled function, then `backward`."""
    x = leaf()
    whole(lambda x: (column.square(x) * 3).sum())(x).backward()
    return x.grad, 15 * x


@row(SECTION, "compile, for any shape")
def compiled_dynamic(column: Any) -> tuple[Any, Any]:
    """The same compiled function for three sizes, the second and third with symbolic shapes."""
    got, right = [], []
    function = whole(lambda x: (column.square(x) * 3).sum())
    for size in (2, 3, 5):
        x = torch.arange(1.0, size + 1, dtype=torch.float64, requires_grad=True)
        function(x).backward()
        got.append(x.grad)
        right.append(15 * x)
    return got, right


@row(SECTION, "compile of torch.func.grad")
def compiled_func_grad(column: Any) -> tuple[Any, Any]:
    """`grad` of the summed square, compiled."""
    x = constant()
    return whole(func.grad(summed(column.square)))(x), 5 * x


@row(SECTION, "compile of torch.func.grad, fullgraph=False")
def compiled_func_grad_in_parts(column: Any) -> tuple[Any, Any]:
    """The same, and what can't be compiled may run as it is."""
    x = constant()
    return whole(func.grad(summed(column.square)), fullgraph=False)(x), 5 * x


@row(SECTION, "compile of vmap of grad")
def compiled_per_sample(column: Any) -> tuple[Any, Any]:
    """Per-sample gradients, compiled."""
    x = torch.stack((constant(), 2 * constant()))
    return whole(func.vmap(func.grad(summed(column.square))))(x), 5 * x
