"""What torch gets silently wrong, and is kept out of the ways that are taken: mended there, these say so.

Third derivatives stand in test_third_order.py.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.derivatives.truth import one_hot_jacobian
from torch import Tensor
from torch.nn import functional as F

import gradwright as gw


def drawn(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)


def under_vmap(y: Tensor, z: Tensor) -> Tensor:
    """Rows by ``torch.func.vmap`` over ``torch.autograd.grad``, [B, K, D]."""
    rows = torch.eye(y.shape[1], dtype=y.dtype)[:, None].expand(-1, *y.shape)

    def row(cotangent: Tensor) -> Tensor:
        return torch.autograd.grad(y, z, cotangent, retain_graph=True)[0]

    return torch.func.vmap(row)(rows).transpose(0, 1)


LAYERS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "layer norm": lambda z, weight: F.layer_norm(z, (4,), weight),
    "batch norm in training": lambda z, weight: F.batch_norm(z, None, None, weight, training=True),
}


@pytest.mark.parametrize("name", LAYERS)
def test_what_vmap_makes_of_the_gradient_of_a_norms_weight_is_differentiated_wrongly(name: str) -> None:
    z, weight = drawn(3, 4), drawn(4)
    losses = LAYERS[name](z, weight).exp().sum(1)

    def row(one_hot: Tensor) -> Tensor:
        return torch.autograd.grad(losses, weight, one_hot, retain_graph=True, create_graph=True)[0]

    one_hots = torch.eye(3, dtype=torch.float64)
    truth = torch.stack([row(one_hot) for one_hot in one_hots])
    vmapped = torch.func.vmap(row)(one_hots)
    ours = gw.per_sample_gradients(losses, weight, batch="coupled", create_graph=True)
    assert isinstance(ours, Tensor)
    torch.testing.assert_close(vmapped, truth)  # the values are right
    right, wrong, our = (
        torch.autograd.grad(rows.square().sum(), z, retain_graph=True)[0] for rows in (truth, vmapped, ours)
    )
    assert (wrong - right).abs().max() > 1e-2 * right.abs().max()
    torch.testing.assert_close(our, right)


def test_vmap_of_the_backward_of_cdist_is_wrong() -> None:
    z = drawn(3, 2, 4)
    y = torch.cdist(z, torch.ones(3, 5, 4, dtype=torch.float64)).flatten(1)
    truth = one_hot_jacobian(y, z)
    assert (under_vmap(y, z) - truth).abs().max() > 1e-2
    torch.testing.assert_close(gw.batch_jacobian(y, wrt=z), truth)
    torch.testing.assert_close(gw.batch_jacobian(y, wrt=z, batch="coupled"), truth)


def test_the_second_derivative_of_the_fused_weight_norm_is_wrong() -> None:
    v, g = drawn(3, 4), drawn(3, 1)
    assert not torch.autograd.gradgradcheck(lambda v, g: torch._weight_norm(v, g, 0), (v, g), raise_exception=False)
    with pytest.raises(gw.NoSecondDerivative, match="WeightNorm"):
        gw.batch_jacobian(torch._weight_norm(v, g, 0), wrt=v, create_graph=True)
