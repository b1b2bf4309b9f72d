"""A step that is captured once as a CUDA graph and replayed: what Gradwright puts into it computes anew each time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from tests.devices import DEVICE, MARKS, only_on_cuda
from tests.on_gpu.nearness import assert_near, copied
from torch import Tensor

import gradwright as gw
from gradwright import losses

pytestmark = [*MARKS, only_on_cuda]

TARGET = torch.arange(64) % 10
CUBED = gw.custom_gradient(lambda x: x**3, lambda grad_output, x: 3 * x**2 * grad_output)
HUBER = gw.elementwise("where(abs(e) < 1, 0.5*e*e, abs(e) - 0.5)", reduction="mean")

# What is captured, and the same by torch.
CAPTURED: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], Callable[[Tensor, Tensor], Tensor]]] = {
    "a custom gradient": (lambda x, y: CUBED(x).sum(), lambda x, y: (x**3).sum()),
    "a formula": (lambda x, y: HUBER(x), lambda x, y: F.huber_loss(x, torch.zeros_like(x))),
    "a loss of rows": (losses.cross_entropy, F.cross_entropy),
    "a loss of sums": (
        lambda x, y: losses.dice_loss(x, y, "multiclass"),
        lambda x, y: losses.dice_loss(x, y, "multiclass"),
    ),
}


@pytest.mark.parametrize("name", CAPTURED)
def test_a_replay_has_the_value_and_gradient_of_what_lies_there_by_then(name: str) -> None:
    step, plain = CAPTURED[name]
    x, y = torch.randn(64, 10, device=DEVICE, requires_grad=True), TARGET.to(DEVICE)

    def run() -> tuple[Tensor, Tensor]:
        value = step(x, y)
        return value, torch.autograd.grad(value, x)[0]

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):  # kernels are compiled before
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        value, gradient = run()
    for seed in (1, 2):
        with torch.no_grad():
            x.copy_(torch.randn(64, 10, generator=torch.Generator().manual_seed(seed)))
        graph.replay()
        torch.cuda.synchronize()
        wide = copied(x)
        known = plain(wide, TARGET)
        assert_near(value, known, 1e-5, f"the value of {name}, replay {seed}")
        assert_near(gradient, torch.autograd.grad(known, wide)[0], 1e-5, f"the gradient of {name}, replay {seed}")
