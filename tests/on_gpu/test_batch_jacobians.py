"""Derivatives of a batch through nodes that only a GPU records (cuDNN, flash attention), beside float64 on a CPU."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable

import pytest
import torch
from tests.derivatives.truth import one_hot_jacobian
from tests.devices import DEVICE, MARKS, only_on_cuda
from tests.on_gpu.nearness import assert_near, copied
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import gradwright as gw

pytestmark = [*MARKS]


class Last(nn.Module):
    """The last step of a recurrent layer, batch first."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.layer(x)[0][:, -1]
        return made


def convolution() -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.Tanh(), nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(18, 3))


def normalised() -> nn.Module:
    net = nn.Sequential(nn.Conv1d(2, 3, 3), nn.BatchNorm1d(3), nn.Tanh(), nn.Flatten(), nn.Linear(9, 2)).eval()
    net[1].running_var.uniform_(0.5, 2.0)  # type: ignore[union-attr, operator]
    return net


NETS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "rnn": (lambda: Last(nn.RNN(4, 3, batch_first=True)), (5, 4)),
    "lstm": (lambda: Last(nn.LSTM(4, 3, batch_first=True)), (5, 4)),
    "gru, two layers, both ways": (lambda: Last(nn.GRU(4, 2, 2, batch_first=True, bidirectional=True)), (5, 4)),
    "convolution": (convolution, (2, 5, 5)),
    "batch norm in evaluation": (normalised, (2, 5)),
}
each_net = pytest.mark.parametrize("kind", NETS)


def on_both(kind: str, samples: int = 4) -> tuple[nn.Module, Tensor, nn.Module, Tensor]:
    """A net and its batch on the device, and on a CPU; all in float64, of which cuDNN makes no TF32."""
    torch.manual_seed(0)
    make, shape = NETS[kind]
    net, x = make().double(), torch.randn(samples, *shape, dtype=torch.float64, requires_grad=True)
    return copy.deepcopy(net).to(DEVICE), copied(x, DEVICE), net, x


@each_net
def test_the_batch_jacobian_is_that_of_a_cpu(kind: str) -> None:
    net, z, twin, x = on_both(kind)
    assert_near(gw.batch_jacobian(net(z), wrt=z), one_hot_jacobian(twin(x), x), 1e-9, f"the Jacobian of {kind}")


def test_the_jacobian_of_other_weights_would_be_seen() -> None:
    net, z, twin, x = on_both("lstm")
    with torch.no_grad():
        next(iter(net.parameters())).mul_(1.001)
    with pytest.raises(AssertionError, match="the Jacobian"):
        assert_near(gw.batch_jacobian(net(z), wrt=z), one_hot_jacobian(twin(x), x), 1e-9, "the Jacobian")


@each_net
def test_per_sample_gradients_are_those_of_each_sample_alone(kind: str) -> None:
    net, z, twin, x = on_both(kind)
    made = gw.per_sample_gradients(net(z).square().sum(1), net)
    for at, loss in enumerate(twin(x).square().sum(1)):
        known = torch.autograd.grad(loss, [*twin.parameters()], retain_graph=True)
        for (name, _), truth in zip(twin.named_parameters(), known, strict=True):
            assert_near(made[name][at], truth, 1e-9, f"of {kind}, sample {at}, the gradient of {name}")


@pytest.mark.parametrize("kind", ["convolution", "batch norm in evaluation"])
def test_a_penalty_trains_through_the_jacobian(kind: str) -> None:
    net, z, twin, x = on_both(kind)
    gw.batch_jacobian(net(z), wrt=z, create_graph=True).square().sum().backward()
    one_hot_jacobian(twin(x), x, create_graph=True).square().sum().backward()
    for (name, one), other in zip(net.named_parameters(), twin.parameters(), strict=True):
        if one.grad is None or other.grad is None:  # the last bias
            assert one.grad is None or not one.grad.any()
        else:
            assert_near(one.grad, other.grad, 1e-8, f"of {kind}, the penalty's gradient of {name}")


@only_on_cuda
@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru, two layers, both ways"])
def test_a_recurrent_layer_of_cudnn_has_no_second_derivative_and_is_named(kind: str) -> None:
    net, z, _, _ = on_both(kind)
    with pytest.raises(gw.NoSecondDerivative, match="Rnn"):
        gw.batch_jacobian(net(z), wrt=z, create_graph=True)


# The device's kernels of attention, and what each can compute in. A CPU has a flash kernel alone.
KERNELS = [
    (SDPBackend.FLASH_ATTENTION, torch.float16),
    (SDPBackend.FLASH_ATTENTION, torch.bfloat16),
    pytest.param((SDPBackend.EFFICIENT_ATTENTION, torch.float16), marks=only_on_cuda),
    pytest.param((SDPBackend.EFFICIENT_ATTENTION, torch.float32), marks=only_on_cuda),
    pytest.param((SDPBackend.CUDNN_ATTENTION, torch.bfloat16), marks=only_on_cuda),
]


@pytest.fixture(params=KERNELS, ids=lambda given: "-".join(str(one).split(".")[-1] for one in given))
def attended(request: pytest.FixtureRequest) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A batch and three numbers of the attention of each sample to itself, on the device, then in float64 on a CPU."""
    kernel, dtype = request.param
    generator = torch.Generator().manual_seed(0)
    z = copied(torch.randn(2, 2, 16, 32, generator=generator), DEVICE, dtype)
    x = copied(z)
    try:
        with sdpa_kernel(kernel), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the reasons why a kernel is not used
            y = scaled_dot_product_attention(z, z, z)
    except RuntimeError as error:
        pytest.skip(f"this torch has no such kernel here: {error}")
    with sdpa_kernel(SDPBackend.MATH):
        known = scaled_dot_product_attention(x, x, x)
    return y[:, 1, 3, :3], z, known[:, 1, 3, :3], x


def test_the_jacobian_of_attention_is_that_of_a_cpu(attended: tuple[Tensor, Tensor, Tensor, Tensor]) -> None:
    y, z, known, x = attended
    made = gw.batch_jacobian(y, wrt=z)
    tolerance = 4 * torch.finfo(z.dtype if z.dtype != torch.float32 else torch.float16).eps  # TF32 is as coarse
    assert_near(made, one_hot_jacobian(known, x), tolerance, f"the Jacobian of {y.grad_fn}")
    assert made.dtype == z.dtype and made.abs().max() > 0


def test_attention_has_no_second_derivative_and_is_named(attended: tuple[Tensor, Tensor, Tensor, Tensor]) -> None:
    y, z, _, _ = attended
    with pytest.raises(gw.NoSecondDerivative, match="Attention"):
        gw.batch_jacobian(y, wrt=z, create_graph=True)
