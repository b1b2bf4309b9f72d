"""Is a gradient right? What judges one, and what makes one from a forward."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

import gradwright as gw


class Square(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * grad_output


class HalfOfIt(Square):
    """A planted fault."""

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return x * grad_output


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()


def check_passes_a_right_gradient() -> None:
    """gw.check passes a right gradient."""
    assert gw.check(Square.apply, draw(4, 3)).ok


def check_finds_a_wrong_gradient() -> None:
    """gw.check finds a wrong one (GW101)."""
    report = gw.check(HalfOfIt.apply, draw(4, 3))
    assert not report.ok and "GW101" in str(report), report


def check_loss_finds_a_jump() -> None:
    """gw.check_loss passes torch's Huber loss and finds a jump."""

    def jumps(prediction: Tensor, target: Tensor) -> Tensor:
        error = (prediction - target).abs()
        return torch.where(error <= 1, 0.5 * error**2, error).mean()

    assert gw.check_loss(F.huber_loss).ok
    assert not gw.check_loss(jumps).ok


def diagnose_finds_a_wrong_gradient() -> None:
    """gw.diagnose of a Function finds GW101."""
    assert "GW101" in str(gw.diagnose(HalfOfIt.apply, draw(4, 3)))


def derive_writes_a_backward() -> None:
    """gw.derive writes a backward that equals autograd's."""
    weight = draw(3, 2)

    def forward(x: Tensor, weight: Tensor) -> Tensor:
        return F.softplus(x @ weight).sum(1)

    derived = gw.derive(forward, draw(4, 3), weight)
    x = draw(4, 3)
    found = torch.autograd.grad(derived.custom_gradient(x, weight).sum(), (x, weight))
    expected = torch.autograd.grad(forward(x, weight).sum(), (x, weight))
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other)


def derive_follows_a_detach() -> None:
    """gw.derive of a forward that detaches."""
    derived = gw.derive(lambda x: x.detach() * x, draw(4))
    x = draw(4)
    (found,) = torch.autograd.grad(derived.custom_gradient(x).sum(), x)
    assert torch.equal(found, x.detach())


def custom_gradient_is_transformed() -> None:
    """gw.custom_gradient under grad, vmap, jvp and torch.compile."""
    cube = gw.custom_gradient(lambda x: x**3, lambda grad_output, x: 3 * x**2 * grad_output)
    assert isinstance(cube, gw.CustomGradient)
    x = draw(4).detach()
    assert torch.allclose(torch.func.grad(lambda x: cube(x).sum())(x), 3 * x**2)
    assert torch.allclose(torch.func.vmap(torch.func.grad(cube))(x), 3 * x**2)
    assert torch.allclose(torch.func.jvp(cube, (x,), (torch.ones_like(x),))[1], 3 * x**2)
    compiled = torch.compile(lambda x: cube(x).sum(), backend="aot_eager", fullgraph=True)
    given = x.clone().requires_grad_()
    compiled(given).backward()
    assert given.grad is not None and torch.allclose(given.grad, 3 * x**2)


def a_place_of_nan_is_named() -> None:
    """gw.explain_nonfinite names where NaN begins."""
    x = torch.zeros(3, requires_grad=True)
    with gw.explain_nonfinite(echo=False) as watch:
        torch.sqrt((x**2).sum()).backward()
    assert watch.first is not None and watch.first.operation.startswith("sqrt"), watch.first


STEPS = (
    check_passes_a_right_gradient,
    check_finds_a_wrong_gradient,
    check_loss_finds_a_jump,
    diagnose_finds_a_wrong_gradient,
    derive_writes_a_backward,
    derive_follows_a_detach,
    custom_gradient_is_transformed,
    a_place_of_nan_is_named,
)
