"""``custom_gradient`` on the device: right beside float64 on a CPU, in all that a training step does around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.devices import COMPILER, DEVICE, IS_DRY, MARKS, only_on_cuda
from tests.on_gpu.nearness import assert_near, copied
from torch import Tensor

import gradwright as gw

pytestmark = [*MARKS]

ROWS, COLUMNS = (6, 5) if IS_DRY else (300, 257)


def gated(x: Tensor, w: Tensor) -> Tensor:
    return x * torch.sigmoid(x) * w


def gated_backward(grad_output: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    s = torch.sigmoid(x)
    return grad_output * w * s * (1 + x * (1 - s)), (grad_output * x * s).sum(0)


def project(x: Tensor, w: Tensor) -> Tensor:
    return x @ w


def project_backward(grad_output: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    return grad_output @ w.t(), x.t() @ grad_output


GATED, PROJECT = gw.custom_gradient(gated, gated_backward), gw.custom_gradient(project, project_backward)


def drawn(*shapes: tuple[int, ...]) -> list[Tensor]:
    """Leaves on the device, in float32."""
    generator = torch.Generator().manual_seed(0)
    return [copied(torch.randn(shape, generator=generator), DEVICE, torch.float32) for shape in shapes]


def differentiated(function: Callable[..., Tensor], *leaves: Tensor) -> list[Tensor]:
    """The value, and a gradient for each leaf of a cotangent that is the same on each device."""
    value = function(*leaves)
    cotangent = torch.linspace(-1, 2, value.numel()).view(value.shape).to(value)
    return [value, *torch.autograd.grad(value, leaves, cotangent)]


def assert_right(function: Callable[..., Tensor], plain: Callable[..., Tensor], *leaves: Tensor) -> None:
    found, known = differentiated(function, *leaves), differentiated(plain, *map(copied, leaves))
    for what, one, truth in zip(("value", "gradient of x", "gradient of w"), found, known, strict=False):
        assert_near(one, truth, 1e-5, what)


def test_value_and_gradients_are_those_of_float64() -> None:
    assert_right(GATED, gated, *drawn((ROWS, COLUMNS), (COLUMNS,)))


def test_a_wrong_factor_would_be_seen() -> None:
    def wrong(grad_output: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        of_x, of_w = gated_backward(grad_output, x, w)
        return of_x, 1.001 * of_w

    with pytest.raises(AssertionError, match="gradient of w"):
        assert_right(gw.custom_gradient(gated, wrong), gated, *drawn((ROWS, COLUMNS), (COLUMNS,)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_the_backward_runs_under_the_autocast_of_its_forward(dtype: torch.dtype) -> None:
    seen: list[tuple[bool, torch.dtype]] = []

    def noted(grad_output: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        seen.append((torch.is_autocast_enabled(DEVICE), torch.get_autocast_dtype(DEVICE)))
        return project_backward(grad_output, x, w)

    x, w = drawn((ROWS, COLUMNS), (COLUMNS, 4))
    with torch.autocast(DEVICE, dtype):
        value = gw.custom_gradient(project, noted)(x, w)
    gradients = torch.autograd.grad(value, (x, w), torch.ones_like(value))
    assert value.dtype is dtype and seen == [(True, dtype)]
    assert [gradient.dtype for gradient in gradients] == [torch.float32] * 2
    for what, one, truth in zip("xw", gradients, differentiated_ones(project, x, w), strict=True):
        assert_near(one, truth, 8 * torch.finfo(dtype).eps, f"gradient of {what}")


def differentiated_ones(function: Callable[..., Tensor], *leaves: Tensor) -> tuple[Tensor, ...]:
    wide = [*map(copied, leaves)]
    return torch.autograd.grad(function(*wide).sum(), wide)


@only_on_cuda
def test_in_a_stream_of_its_own_the_backward_runs_there_too_and_waits_for_nothing_else() -> None:
    streams: list[torch.cuda.Stream] = []

    def noted(grad_output: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        streams.append(torch.cuda.current_stream())
        return gated_backward(grad_output, x, w)

    function, leaves = gw.custom_gradient(gated, noted), drawn((ROWS, COLUMNS), (COLUMNS,))
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(10_000_000)  # whoever does not wait for it finds memory without its numbers
        found = differentiated(function, *leaves)
    torch.cuda.current_stream().wait_stream(side)
    for one, truth in zip(found, differentiated(gated, *map(copied, leaves)), strict=True):
        assert_near(one, truth, 1e-5, "value or gradient in a side stream")
    assert streams == [side]


def test_second_derivatives_go_through_the_backward() -> None:
    def penalty(function: Callable[..., Tensor], x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        (slope,) = torch.autograd.grad(function(x, w).square().sum(), x, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), (x, w))

    x, w = drawn((ROWS, COLUMNS), (COLUMNS,))
    known = penalty(gated, copied(x), copied(w))
    for what, one, truth in zip("xw", penalty(GATED, x, w), known, strict=True):
        assert_near(one, truth, 3e-5, f"second derivative by {what}")


def test_compiled_it_is_the_same() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, w: GATED(2 * x, w).exp(), backend=COMPILER)
    assert_right(compiled, lambda x, w: gated(2 * x, w).exp(), *drawn((ROWS, COLUMNS), (COLUMNS,)))


def test_under_vmap_and_grad_each_sample_has_its_own_gradient() -> None:
    def per_sample(function: Callable[..., Tensor], x: Tensor, w: Tensor) -> Tensor:
        loss = torch.func.grad(lambda w, row: function(row[None], w).square().sum())
        return torch.func.vmap(loss, (None, 0))(w, x)

    x, w = (leaf.detach() for leaf in drawn((ROWS, COLUMNS), (COLUMNS,)))
    assert_near(per_sample(GATED, x, w), per_sample(gated, x.double().cpu(), w.double().cpu()), 1e-5, "each gradient")


def test_used_twice_its_gradients_add_up() -> None:
    x, w = drawn((ROWS, COLUMNS), (COLUMNS,))
    assert_right(lambda x, w: GATED(GATED(x, w), w), lambda x, w: gated(gated(x, w), w), x, w)
    (square,) = drawn((COLUMNS, COLUMNS))
    assert_right(lambda x: PROJECT(x, x), lambda x: x @ x, square)


def test_within_a_checkpoint_the_gradients_are_the_same_to_the_bit() -> None:
    def checkpointed(*leaves: Tensor) -> Any:
        return torch.utils.checkpoint.checkpoint(GATED, *leaves, use_reentrant=False)

    leaves = drawn((ROWS, COLUMNS), (COLUMNS,))
    for one, other in zip(differentiated(checkpointed, *leaves), differentiated(GATED, *leaves), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("names", ["nothing", "w", "mask"])
def test_what_the_signature_asks_for_is_saved_and_nothing_else(names: str) -> None:
    def forward(x: Tensor, w: Tensor) -> Any:
        mask = x > 0
        return x * mask * w, gw.residuals(mask=mask)

    backwards: dict[str, Callable[..., Any]] = {
        "nothing": lambda g: (g, g.sum(0)),
        "w": lambda g, w: (g * w, g.sum(0)),
        "mask": lambda g, mask: (g * mask, g.sum(0)),
    }
    x, w = drawn((ROWS, COLUMNS), (COLUMNS,))
    kept: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (kept.append(t), t)[1], lambda t: t):  # type: ignore[func-returns-value]
        gw.custom_gradient(forward, backwards[names])(x, w).sum().backward()
    expected = {"nothing": [], "w": [((COLUMNS,), torch.float32)], "mask": [((ROWS, COLUMNS), torch.bool)]}
    assert [(tuple(t.shape), t.dtype) for t in kept] == expected[names]
    assert {t.device.type for t in (*kept, x.grad, w.grad) if t is not None} == {DEVICE}
