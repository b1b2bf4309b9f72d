"""The penalty on a hidden node of a network, beside a loop over samples and outputs that takes each gradient alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import gradwright as gw
from gradwright.penalties import unit_norm_penalty


class Straight(nn.Module):
    """Its output is linear in the code: the derivative is the same for every sample."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(4, 1, bias=False)
        self.decoder = nn.Linear(1, 3, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        code = self.encoder(x)
        return self.decoder(code), code


class Bent(Straight):
    """Its output is not linear in the code: every sample has a derivative of its own."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        code = self.encoder(x)
        return self.decoder(torch.tanh(code)).sin(), code


def loop_over_samples(y: Tensor, code: Tensor) -> Tensor:
    """sum_b | ||dy_b/dcode_b|| - 1 |, with one backward for each output of each sample."""
    distances = []
    for sample, outputs in enumerate(y):
        slopes = [torch.autograd.grad(one, code, create_graph=True)[0][sample] for one in outputs]
        norm = torch.cat(slopes).square().sum().sqrt()
        distances.append((norm - 1).abs())
    return torch.stack(distances).sum()


@pytest.mark.parametrize("scale", [1e-3, 0.1, 0.5, 1.0, 3.0, 1e3], ids=str)
@pytest.mark.parametrize("kind", [Straight, Bent], ids=lambda kind: kind.__name__)
def test_it_is_the_loop_over_samples_at_every_size_of_the_norm(kind: type[Straight], scale: float) -> None:
    torch.manual_seed(0)
    model = kind().double()
    with torch.no_grad():
        model.decoder.weight *= scale
    y, z = model(torch.randn(6, 4, dtype=torch.float64))
    ours, loop = unit_norm_penalty(y, wrt=z), loop_over_samples(y, z)
    torch.testing.assert_close(ours, loop, rtol=1e-12, atol=1e-12)
    for one, two in zip(*(torch.autograd.grad(p, list(model.parameters()), retain_graph=True, materialize_grads=True)
                          for p in (ours, loop)), strict=True):  # fmt: skip
        torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-12)


def test_a_training_step_is_that_of_the_loop() -> None:
    torch.manual_seed(0)
    x, target = torch.randn(8, 4, dtype=torch.float64), torch.randn(8, 3, dtype=torch.float64)
    trained = []
    for penalty in (unit_norm_penalty, loop_over_samples):
        torch.manual_seed(1)
        model = Bent().double()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for _ in range(3):
            optimizer.zero_grad()
            y, z = model(x)
            (nn.functional.mse_loss(y, target) + penalty(y, z)).backward()
            optimizer.step()
        trained.append(torch.cat([parameter.detach().flatten() for parameter in model.parameters()]))
    torch.testing.assert_close(*trained)


def test_the_derivative_is_zero_where_the_norm_is_zero() -> None:
    z = torch.tensor([[0.0], [2.0]], dtype=torch.float64, requires_grad=True)
    weight = torch.tensor([3.0, 4.0], dtype=torch.float64, requires_grad=True)
    y = weight * z.square()  # dy/dz = 2 z (3, 4)
    penalty = unit_norm_penalty(y, wrt=z, reduction="none")
    torch.testing.assert_close(penalty, torch.tensor([1.0, 19.0], dtype=torch.float64))
    of_weight, of_z = torch.autograd.grad(penalty.sum(), (weight, z))
    torch.testing.assert_close(of_weight, torch.tensor([2.4, 3.2], dtype=torch.float64))  # 4 w / |w|
    torch.testing.assert_close(of_z, torch.tensor([[0.0], [10.0]], dtype=torch.float64))
    (of_loop,) = torch.autograd.grad(loop_over_samples(weight * z.square(), z), weight)
    assert of_loop.isnan().all()  # what the loop makes of it


def test_the_derivative_is_zero_where_the_norm_is_the_target() -> None:
    z = torch.ones(1, 1, dtype=torch.float64, requires_grad=True)
    weight = torch.tensor([3.0, 4.0], dtype=torch.float64, requires_grad=True)
    exact = unit_norm_penalty(weight * z, wrt=z, target=5.0)
    assert exact.item() == 0
    (of_weight,) = torch.autograd.grad(exact, weight)
    assert of_weight.tolist() == [0, 0]


def test_another_target_moves_the_penalty() -> None:
    z = torch.ones(2, 1, requires_grad=True)
    y = torch.cat([3 * z, 4 * z], 1)
    assert unit_norm_penalty(y, wrt=z, target=2.0, reduction="none").tolist() == [3.0, 3.0]


def test_a_hidden_node_may_be_captured() -> None:
    torch.manual_seed(0)
    model = Bent().double()
    with gw.derivatives.capture(model.encoder) as z:
        y, hidden = model(torch.randn(5, 4, dtype=torch.float64))
    torch.testing.assert_close(unit_norm_penalty(y, wrt=z), unit_norm_penalty(y, wrt=hidden))


def test_the_batch_may_lie_along_another_axis() -> None:
    torch.manual_seed(0)
    z = torch.randn(3, 5, 2, dtype=torch.float64, requires_grad=True)  # steps, samples, numbers
    y = z.cumsum(0).sin()
    turned = unit_norm_penalty(y.movedim(1, 0), wrt=z, batch_dim=(0, 1))
    torch.testing.assert_close(unit_norm_penalty(y, wrt=z, batch_dim=1), turned)


def test_the_function_form_calls_it_once() -> None:
    calls = []

    def bend(x: Tensor) -> Tensor:
        calls.append(x)
        return torch.stack([x.sin(), x.cos()], 1)

    penalty = unit_norm_penalty(bend, wrt=torch.ones(4, dtype=torch.float64))
    assert len(calls) == 1
    assert penalty.item() == pytest.approx(0, abs=1e-14)
