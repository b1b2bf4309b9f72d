"""``gw.elementwise`` on the device: one kernel of Triton's, as near to float64 as its precision allows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from tests.devices import BACKEND, COMPILER, DEVICE, IS_DRY, MARKS
from tests.on_gpu.nearness import assert_near, copied
from torch import Tensor

import gradwright as gw

pytestmark = [*MARKS]

SHAPE = (7, 30) if IS_DRY else (300, 1030)
LONG = " + ".join(f"tanh({k}*x)*exp(-{k}*y*y)/{k}" for k in range(1, 9))


def long_by_torch(x: Tensor, y: Tensor) -> Tensor:
    return sum((torch.tanh(k * x) * torch.exp(-k * y * y) / k for k in range(1, 9)), start=torch.zeros_like(x))


# A formula, the same by torch, and how many tensors it takes.
FORMULAS: dict[str, tuple[str, Callable[..., Tensor], int]] = {
    "huber": (
        "where(abs(x - y) < 1, 0.5*(x - y)*(x - y), abs(x - y) - 0.5)",
        lambda x, y: F.huber_loss(x, y, reduction="none"),
        2,
    ),
    "gelu": ("0.5*x*(1 + erf(x/1.4142135623730951))", F.gelu, 1),
    "long": (LONG, long_by_torch, 2),
}
each_formula = pytest.mark.parametrize("name", FORMULAS)


def drawn(count: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [copied(torch.randn(SHAPE, generator=generator), DEVICE, dtype) for _ in range(count)]


def differentiated(function: Callable[..., Tensor], leaves: list[Tensor]) -> list[Tensor]:
    value = function(*leaves)
    cotangent = torch.linspace(-1, 2, value.numel()).view(value.shape).to(value)
    return [value, *torch.autograd.grad(value, leaves, cotangent)]


def assert_right(
    function: Callable[..., Tensor], plain: Callable[..., Tensor], leaves: list[Tensor], tolerance: float = 4e-6
) -> None:
    known = differentiated(plain, [copied(leaf) for leaf in leaves])
    found = differentiated(function, leaves)
    for at, (one, truth) in enumerate(zip(found, known, strict=True)):
        assert_near(one, truth, tolerance, f"the gradient of input {at - 1}" if at else "the value")


def assert_planned(function: gw.Elementwise, *inputs: Tensor) -> None:
    plan = function.plan(*inputs)
    assert (plan.backend, plan.is_fallback) == (BACKEND, False), f"{plan.backend}: {plan.why}\n{plan}"


@each_formula
def test_value_and_gradients_are_those_of_float64_and_a_kernel_makes_them(name: str) -> None:
    text, plain, count = FORMULAS[name]
    made, leaves = gw.elementwise(text), drawn(count)
    assert_planned(made, *leaves)
    assert_right(made, plain, leaves)


def test_a_formula_that_is_not_the_same_would_be_seen() -> None:
    text, plain, count = FORMULAS["huber"]
    with pytest.raises(AssertionError, match="the value"):
        assert_right(gw.elementwise(text.replace("abs(x - y) - 0.5", "abs(x - y) - 0.501")), plain, drawn(count))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@each_formula
def test_of_half_precision_each_result_is_rounded_once(name: str, dtype: torch.dtype) -> None:
    text, plain, count = FORMULAS[name]
    made, leaves = gw.elementwise(text), drawn(count, dtype)
    assert_planned(made, *leaves)
    found = differentiated(made, leaves)
    assert {one.dtype for one in found} == {dtype}
    assert_right(made, plain, leaves, 2 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("dim", [None, 0, 1])
def test_reductions_are_those_of_float64(reduction: str, dim: int | None) -> None:
    text, plain, count = FORMULAS["huber"]
    made, leaves = gw.elementwise(text, reduction=reduction, dim=dim), drawn(count)  # type: ignore[arg-type]
    assert_planned(made, *leaves)

    def reduced(*leaves: Tensor) -> Tensor:
        whole = plain(*leaves)
        return getattr(whole, reduction)() if dim is None else getattr(whole, reduction)(dim)  # type: ignore[no-any-return]

    assert_right(made, reduced, leaves, 1e-5)


def test_what_is_masked_counts_nothing_even_where_it_is_nan() -> None:
    text, plain, count = FORMULAS["huber"]
    made, leaves = gw.elementwise(text, reduction="mean"), drawn(count)
    mask = leaves[0].detach() > -0.5
    with torch.no_grad():
        leaves[1].masked_fill_(~mask, torch.nan)
    weight = torch.linspace(0.5, 2.0, SHAPE[1], device=DEVICE)

    def masked(x: Tensor, y: Tensor) -> Tensor:
        here, of_each = mask.cpu(), weight.cpu().double().expand(SHAPE)
        return (plain(x[here], y[here]) * of_each[here]).sum() / of_each[here].sum()

    assert_right(lambda x, y: made(x, y, mask=mask, weight=weight), masked, leaves, 1e-5)


@pytest.mark.parametrize(
    "view",
    [lambda x: x.t(), lambda x: x[::2, 1::3], lambda x: x[:1].expand(SHAPE), lambda x: x.flip(1), lambda x: x[None]],
    ids=["transposed", "every second", "expanded", "reversed", "one axis more"],
)
def test_every_layout_is_walked_right(view: Callable[[Tensor], Tensor]) -> None:
    text, plain, count = FORMULAS["long"]
    made = gw.elementwise(text)
    assert_right(lambda x, y: made(view(x), view(y)), lambda x, y: plain(view(x), view(y)), drawn(count))


def test_second_derivatives_are_those_of_float64() -> None:
    text, plain, count = FORMULAS["long"]

    def slopes(function: Callable[..., Tensor], leaves: list[Tensor]) -> list[Tensor]:
        first = torch.autograd.grad(function(*leaves).sum(), leaves, create_graph=True)
        return [*torch.autograd.grad(sum(one.square().sum() for one in first), leaves)]

    leaves = drawn(count)
    known = slopes(plain, [copied(leaf) for leaf in leaves])
    for at, (one, truth) in enumerate(zip(slopes(gw.elementwise(text), leaves), known, strict=True)):
        assert_near(one, truth, 3e-5, f"the second derivative by input {at}")


def test_compiled_it_is_the_same() -> None:
    torch._dynamo.reset()
    text, plain, count = FORMULAS["huber"]
    made = gw.elementwise(text, reduction="mean")
    compiled = torch.compile(lambda x, y: made(2 * x, y), backend=COMPILER)
    assert_right(compiled, lambda x, y: plain(2 * x, y).mean(), drawn(count), 1e-5)
