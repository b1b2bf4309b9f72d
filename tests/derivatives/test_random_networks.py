"""Networks drawn at random: by default a Jacobian is one-hot truth, or CoupledBatch is raised."""

from __future__ import annotations

from collections.abc import Callable

import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.derivatives.functions import Cube
from tests.derivatives.truth import one_hot_jacobian
from torch import Tensor, nn

import gradwright as gw
from gradwright.errors import CoupledBatch

WIDTH = 4


def _attend(x: Tensor) -> Tensor:
    return torch.softmax(x @ x.T, -1) @ x


def _gather(x: Tensor) -> Tensor:
    return x.gather(1, x.argsort(1))


#: Layers [B, 4] -> [B, 4] that keep the samples apart.
APART: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda x: x @ torch.linspace(-1, 1, WIDTH * WIDTH, dtype=x.dtype).reshape(WIDTH, WIDTH),
    "tanh": torch.tanh,
    "relu": torch.relu,
    "gelu": nn.functional.gelu,
    "softmax": lambda x: torch.softmax(x, 1),
    "layer norm": lambda x: nn.functional.layer_norm(x, (WIDTH,)),
    "square": torch.square,
    "cube": Cube.apply,
    "residual": lambda x: x + torch.sin(x),
    "sorted": _gather,
    "flip": lambda x: x.flip(1),
    "cat": lambda x: torch.cat([x[:, 2:] * 2, x[:, :2]], 1),
    "norm": lambda x: x / (1 + x.norm(dim=1, keepdim=True)),
    "outer": lambda x: torch.einsum("bi,bj->bij", x, x).mean(2),
    "cumsum": lambda x: x.cumsum(1),
    "shared bias": lambda x: x + torch.arange(float(WIDTH), dtype=x.dtype),
    "transpose": lambda x: (x.T * 2).T,
    "fold": lambda x: x.reshape(-1, 2).tanh().reshape(-1, WIDTH),
    "where": lambda x: torch.where(x > 0, x, 0.1 * x),
    "conv": lambda x: nn.functional.conv1d(x[:, None], torch.ones(1, 1, 3, dtype=x.dtype), padding=1)[:, 0],
}

#: Layers that mix them, by a strength.
COUPLED: dict[str, Callable[[Tensor, float], Tensor]] = {
    "mean": lambda x, e: x - e * x.mean(0),
    "batch norm": lambda x, e: (1 - e) * x + e * nn.functional.batch_norm(x, None, None, training=True),
    "batch attention": lambda x, e: x + e * _attend(x),
    "std": lambda x, e: x + e * x.std(),
    "neighbour": lambda x, e: x + e * x.roll(1, 0),
    "first": lambda x, e: x + e * x[:1],
    "flip": lambda x, e: x + e * x.flip(0),
    "max": lambda x, e: x + e * x.amax(0),
    "matmul": lambda x, e: x + e * (torch.ones(len(x), len(x), dtype=x.dtype) @ x),
    "cumsum": lambda x, e: x + e * x.cumsum(0),
    "shuffle": lambda x, e: x + e * x.reshape(WIDTH, -1).T,
}

apart = st.lists(st.sampled_from(sorted(APART)), min_size=1, max_size=5)


def _latent(samples: int, seed: int) -> Tensor:
    drawn = torch.randn(samples, WIDTH, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return drawn.requires_grad_()


@settings(max_examples=60, deadline=None)
@given(apart, st.integers(1, 5), st.integers(0, 99), st.booleans())
def test_independent_networks_are_right(layers: list[str], samples: int, seed: int, create_graph: bool) -> None:
    z = _latent(samples, seed)
    y = z * 1.0
    for layer in layers:
        y = APART[layer](y)
    made = gw.batch_jacobian(y, z, create_graph=create_graph)
    torch.testing.assert_close(made.detach(), one_hot_jacobian(y, z))
    assert gw.check_batch_independence(y, z)


@settings(max_examples=25, deadline=None)
@given(
    apart,
    st.sampled_from(sorted(COUPLED)),
    st.sampled_from([1e-6, 1e-4, 1e-2, 0.5]),
    apart,
    st.integers(2, 4),
    st.integers(0, 99),
)
def test_coupled_networks_raise_or_are_right(
    before: list[str], mix: str, strength: float, after: list[str], samples: int, seed: int
) -> None:
    z = _latent(samples, seed)
    y = z * 1.0
    for layer in before:
        y = APART[layer](y)
    y = COUPLED[mix](y, strength)
    for layer in after:
        y = APART[layer](y)
    truth = one_hot_jacobian(y, z)
    assume(bool(truth.isfinite().all()))  # seven cubes overflow
    try:
        made = gw.batch_jacobian(y, z)
    except CoupledBatch:
        torch.testing.assert_close(gw.batch_jacobian(y, z, batch="coupled"), truth)
        return
    size = truth.abs().flatten(1).amax(1).clamp_min(1e-300)
    assert float(((made - truth).abs().flatten(1).amax(1) / size).max()) < 1e-9


@settings(max_examples=25, deadline=None)
@given(
    apart,
    st.sampled_from([None, *sorted(COUPLED)]),
    st.sampled_from([0.0, 1e-4, 0.1]),
    apart,
    st.integers(2, 4),
    st.integers(0, 99),
)
def test_what_is_differentiated_again_is_right_or_raises(
    before: list[str], mix: str | None, gate: float, after: list[str], samples: int, seed: int
) -> None:
    z = _latent(samples, seed)
    weight = torch.linspace(0.5, 1.5, WIDTH, dtype=torch.float64).requires_grad_()
    opened = torch.tensor(gate, dtype=torch.float64, requires_grad=True)
    y = z * weight
    for layer in before[:3]:
        y = APART[layer](y)
    if mix is not None:
        y = y + opened * (COUPLED[mix](y, 1.0) - y)
    y = y * weight.sin()
    for layer in after[:2]:
        y = APART[layer](y)

    def penalised(jacobian: Tensor) -> list[Tensor]:
        value = jacobian.square().sum() + jacobian.sin().sum()
        given = [z, weight, opened]
        made = torch.autograd.grad(value, given, allow_unused=True, materialize_grads=True, retain_graph=True)
        return list(made)

    try:
        made = gw.batch_jacobian(y, z, create_graph=True)
    except CoupledBatch:
        assert mix is not None
        return
    for one, truth in zip(penalised(made), penalised(one_hot_jacobian(y, z, create_graph=True)), strict=True):
        torch.testing.assert_close(one, truth, rtol=1e-6, atol=1e-9)
