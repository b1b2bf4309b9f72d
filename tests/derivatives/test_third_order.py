"""Which layers have a right third derivative, by finite differences of their second."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gradwright.derivatives.graph.request import read_request
from gradwright.derivatives.hessian import batch_hessian, hessian_diagonal
from gradwright.derivatives.laplacians import laplacian
from gradwright.derivatives.products import hvp
from gradwright.derivatives.third_order import WRONG_THIRD, require_thrice
from gradwright.errors import DerivativeError

WEIGHT = torch.linspace(-1, 2, 4, dtype=torch.float64)

LAYERS: dict[str, tuple[Callable[[Tensor], Tensor], bool]] = {
    "layer norm": (lambda x: F.layer_norm(x, (4,), WEIGHT), False),
    "batch norm in training": (lambda x: F.batch_norm(x, None, None, WEIGHT, training=True), False),
    "instance norm": (lambda x: F.instance_norm(x[None])[0] * WEIGHT, False),
    "batch norm in evaluation": (lambda x: F.batch_norm(x, WEIGHT, WEIGHT.square(), WEIGHT) ** 3, True),
    "group norm": (lambda x: F.group_norm(x, 2, WEIGHT), True),
    "softmax": (lambda x: torch.softmax(x, 1), True),
    "written out": (lambda x: (x - x.mean(1, keepdim=True)) * (x.var(1, keepdim=True) + 1e-5).rsqrt(), True),
}


def second_derivative(layer: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """One number of the second derivative, differentiable."""
    y = layer(x)
    count = torch.arange(x.numel()).reshape(x.shape)
    (gradient,) = torch.autograd.grad((y * count.sin()).sum(), x, create_graph=True)
    (again,) = torch.autograd.grad((gradient * count.cos()).sum(), x, create_graph=True)
    return (again * (count + 1).sin()).sum()


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_finite_differences_agree_where_the_table_says_nothing(name: str) -> None:
    layer, right = LAYERS[name]
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64, requires_grad=True)
    step = 1e-5 * torch.randn(3, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    ends = [second_derivative(layer, (x.detach() + sign * step).requires_grad_()).item() for sign in (1, -1)]
    try:
        (third,) = torch.autograd.grad(second_derivative(layer, x), x)
        agree = abs(float((third * step).sum()) - (ends[0] - ends[1]) / 2) <= 1e-3 * 1e-5
    except RuntimeError:  # from torch 2.14 on a BatchNorm refuses
        agree = False
    assert agree == right
    way = read_request(layer(x), x, 0, False).way
    assert bool(way.names & WRONG_THIRD.keys()) or right
    if right:
        require_thrice(way)
    else:
        with pytest.raises(DerivativeError, match="third derivative"):
            require_thrice(way)


def test_only_a_second_derivative_with_a_graph_is_refused() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    y = nn.LayerNorm(4)(x).exp().sum(1)
    hvp(y, x, x.detach())
    for asked in (
        lambda: batch_hessian(y, x, create_graph=True),
        lambda: hessian_diagonal(y, x, create_graph=True),
        lambda: hvp(y, x, x.detach(), create_graph=True),
        lambda: laplacian(y, x, mode="reverse", create_graph=True),
        lambda: laplacian(y, x, batch="coupled", create_graph=True),
    ):
        with pytest.raises(DerivativeError, match="GroupNorm"):
            asked()
    assert laplacian(y, x, create_graph=True).requires_grad
