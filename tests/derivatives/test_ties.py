"""At a bound and at a tie, whole-batch derivatives and derived backwards are those of the torch that is there."""

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import gradwright as gw

Function = Callable[[Tensor, Tensor], Tensor]

FUNCTIONS: dict[str, Function] = {
    "clamp by numbers": lambda x, y: x.clamp(0, 1) * y,
    "clamp by a lower number": lambda x, y: x.clamp(min=0) + y,
    "clamp_max by a number": lambda x, y: x.clamp_max(1) + y,
    "clamp by tensors": lambda x, y: x.clamp(y, torch.ones_like(y)),
    "clamp by a lower tensor": lambda x, y: x.clamp(min=y),
    "clamp_max by a tensor": torch.clamp_max,
    "fmax": torch.fmax,
    "fmin": torch.fmin,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "relu6": lambda x, y: F.relu6(x) + y,
    "hardtanh": lambda x, y: F.hardtanh(x) + y,
    "abs": lambda x, y: x.abs() * y,
}
NUMBERS = (-1.0, 0.0, 0.5, 1.0, 2.0, 6.0)


def on_bounds(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Every pair of the numbers."""
    x, y = torch.tensor(list(itertools.product(NUMBERS, repeat=2)), dtype=dtype).unbind(1)
    return x.clone().requires_grad_(), y.clone().requires_grad_()


def slopes(function: Function, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(function(x, y).sum(), (x, y))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_of_a_batch_are_torchs(name: str, dtype: torch.dtype) -> None:
    function, (x, y) = FUNCTIONS[name], on_bounds(dtype)
    for place in (0, 1):
        wrt = (x, y)[place]
        rows = wrt.detach().unsqueeze(1).requires_grad_()
        given = (rows, y.unsqueeze(1)) if place == 0 else (x.unsqueeze(1), rows)
        jacobian = gw.batch_jacobian(function(*given), rows)
        assert torch.equal(jacobian.flatten(), slopes(function, x, y)[place])

        (first,) = torch.autograd.grad((function(x, y) ** 2).sum(), wrt, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), wrt)
        assert torch.equal(gw.batch_hessian((function(*given) ** 2).squeeze(1), rows).flatten(), second)
        assert torch.equal(gw.laplacian((function(*given) ** 2).squeeze(1), rows).flatten(), second)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_derived_backward_is_torchs(name: str) -> None:
    function, (x, y) = FUNCTIONS[name], on_bounds(torch.float64)
    generator = torch.Generator().manual_seed(0)
    example = torch.randn(2, 5, generator=generator, dtype=torch.float64).unbind()
    derived = gw.derive(function, *[each.clone().requires_grad_() for each in example], level="quick")
    found = slopes(derived.custom_gradient, x, y)
    assert all(torch.equal(one, other) for one, other in zip(found, slopes(function, x, y), strict=True))


def test_the_points_tell_one_convention_from_the_other() -> None:
    x, y = on_bounds(torch.float64)
    passing: Function = lambda x, y: torch.where((x >= 0) & (x <= 1), x, 0.0) + 0 * y  # noqa: E731
    strict: Function = lambda x, y: torch.where((x > 0) & (x < 1), x, 0.0) + 0 * y  # noqa: E731
    known = slopes(lambda x, y: x.clamp(0, 1) + 0 * y, x, y)[0]
    assert [torch.equal(slopes(each, x, y)[0], known) for each in (passing, strict)].count(True) == 1
