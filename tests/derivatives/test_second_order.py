"""Nodes without a second derivative are found before anything is computed; the list of them is tried again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.derivatives.functions import NumpySine, Once
from torch import Tensor, nn
from torch.nn import functional as F

import gradwright as gw
from gradwright.derivatives.graph.target import short_name
from gradwright.derivatives.second_order import WITHOUT_SECOND
from gradwright.errors import NoSecondDerivative


def _z(*shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).requires_grad_()


#: What records the nodes of the list that a CPU can run: z, and an output of it.
ON_CPU: dict[str, Callable[[], tuple[Tensor, Tensor]]] = {}


def _records(name: str) -> Callable[[Callable[[], tuple[Tensor, Tensor]]], None]:
    def keep(make: Callable[[], tuple[Tensor, Tensor]]) -> None:
        ON_CPU[name] = make

    return keep


@_records("ScaledDotProductFlashAttentionForCpuBackward0")
def _attention() -> tuple[Tensor, Tensor]:
    z = _z(2, 1, 3, 4)
    return z, F.scaled_dot_product_attention(z, z, z)


@_records("CdistBackward0")
def _cdist() -> tuple[Tensor, Tensor]:
    z = _z(4, 3)
    return z, torch.cdist(z, z.detach() + 1, p=1.0)


@_records("PdistBackward0")
def _pdist() -> tuple[Tensor, Tensor]:
    z = _z(4, 3)
    return z, torch.pdist(z)


@_records("HardsigmoidBackward0")
def _hardsigmoid() -> tuple[Tensor, Tensor]:
    z = _z(4, 3)
    return z, F.hardsigmoid(z)


@_records("MaskedSoftmaxBackward0")
def _masked_softmax() -> tuple[Tensor, Tensor]:
    z = _z(4, 3)
    return z, torch._masked_softmax(z, torch.zeros(4, 3, dtype=torch.bool), 1, 2)


@_records("EmbeddingBagBackward0")
def _embedding_bag() -> tuple[Tensor, Tensor]:
    z = _z(4, 3)
    return z, F.embedding_bag(torch.tensor([[0, 1], [2, 3]]), z)


@_records("SegmentReduceBackward0")
def _segment_reduce() -> tuple[Tensor, Tensor]:
    z = _z(4)
    return z, torch.segment_reduce(z, "prod", lengths=torch.tensor([2, 2]))


@_records("StandardGammaBackward0")
def _gamma() -> tuple[Tensor, Tensor]:
    z = _z(4, 3)
    return z, torch._standard_gamma(z)


@_records("CtcLossBackward0")
def _ctc() -> tuple[Tensor, Tensor]:
    z = _z(5, 2, 4)
    lengths = [5, 5]
    return z, torch._ctc_loss(z.log_softmax(2), torch.ones(2, 2, dtype=torch.long), lengths, [2, 2])[0]


@_records("MultiMarginLossBackward0")
def _multi_margin() -> tuple[Tensor, Tensor]:
    z = _z(4, 3)
    return z, F.multi_margin_loss(z, torch.zeros(4, dtype=torch.long), reduction="none")


@_records("MultilabelMarginLossBackward0")
def _multilabel_margin() -> tuple[Tensor, Tensor]:
    z = _z(4, 3)
    return z, F.multilabel_margin_loss(z, torch.zeros(4, 3, dtype=torch.long), reduction="none")


@_records("FakeQuantizeLearnablePerTensorAffineBackward0")
def _fake_quantize() -> tuple[Tensor, Tensor]:
    z = _z(4, 3).detach().float().requires_grad_()
    scale = torch.tensor([0.1], requires_grad=True)
    return z, torch._fake_quantize_learnable_per_tensor_affine(z, scale, torch.zeros(1), 0, 255, 1.0)


@_records("WeightNormInterfaceBackward0")
def _weight_norm() -> tuple[Tensor, Tensor]:
    z = _z(4, 3)
    return z, torch._weight_norm(z, torch.ones(4, 1, dtype=torch.float64, requires_grad=True), 0)


def _second(z: Tensor, y: Tensor) -> Tensor:
    """d/dz of <dL/dz, 1>, L = |tanh y|^2, by autograd."""
    (first,) = torch.autograd.grad(y.tanh().square().sum(), z, create_graph=True)
    return torch.autograd.grad(first.sum(), z)[0]


@pytest.mark.parametrize("name", [name for name in ON_CPU if name != "WeightNormInterfaceBackward0"])
def test_the_list_is_of_nodes_that_torch_refuses(name: str) -> None:
    z, y = ON_CPU[name]()
    assert name in WITHOUT_SECOND
    with pytest.raises((RuntimeError, NotImplementedError), match="not implemented"):
        _second(z, y)


def test_the_second_derivative_of_fused_weight_norm_is_wrong() -> None:
    """Why it is on the list: autograd gives one without an error.  When this fails, torch was corrected."""
    z, y = ON_CPU["WeightNormInterfaceBackward0"]()
    right = _second(z, z / z.norm(dim=1, keepdim=True))
    assert not torch.allclose(_second(z, y), right, rtol=1e-3)


@pytest.mark.parametrize("name", list(ON_CPU))
def test_a_node_on_the_list_is_found_before_computing(name: str) -> None:
    z, y = ON_CPU[name]()
    touched: list[Tensor] = []
    z.register_hook(touched.append)
    with pytest.raises(NoSecondDerivative, match=f"{name} has no second derivative"):
        gw.batch_jacobian(y.reshape(1, -1), z, batch_dim=(0, None), create_graph=True)
    assert not touched


def test_attention_names_the_line_and_the_remedy() -> None:
    z = _z(2, 1, 3, 4)
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        y = F.scaled_dot_product_attention(z, z, z)
    with pytest.raises(NoSecondDerivative) as caught:
        gw.batch_jacobian(y, z, create_graph=True)
    assert "test_second_order.py, line" in str(caught.value)
    assert "y = F.scaled_dot_product_attention(z, z, z)" in str(caught.value)
    assert "SDPBackend.MATH" in str(caught.value)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        decomposed = F.scaled_dot_product_attention(z, z, z)
    assert gw.batch_jacobian(decomposed, z, create_graph=True).requires_grad


def test_without_anomaly_mode_the_error_tells_how_to_learn_the_line() -> None:
    z = _z(2, 1, 3, 4)
    with pytest.raises(NoSecondDerivative, match="set_detect_anomaly"):
        gw.batch_jacobian(F.scaled_dot_product_attention(z, z, z), z, create_graph=True)


@pytest.mark.parametrize("function", [Once, NumpySine], ids=lambda function: function.__name__)
def test_once_differentiable_is_told_with_its_file_and_line(function: Any) -> None:
    z = _z(4, 3)
    with pytest.raises(NoSecondDerivative, match=rf"\.py, line \d+, in {function.__name__}.backward") as caught:
        gw.batch_jacobian(function.apply(z), z, create_graph=True)
    assert "gw.custom_gradient" in str(caught.value)
    assert gw.batch_jacobian(function.apply(z), z).shape == (4, 3, 3)


def test_autograd_alone_drops_the_second_derivative_of_once_differentiable_silently() -> None:
    """Why it is looked for: it is 6 z for a cube, and autograd takes the slope for a constant."""
    z = _z(4, 3)
    (first,) = torch.autograd.grad(Once.apply(z).tanh().sum(), z, create_graph=True)
    made = torch.autograd.grad(first.sum(), z, allow_unused=True)[0]
    right = torch.autograd.functional.hessian(lambda x: (x**3).tanh().sum(), z.detach()).sum((2, 3))
    assert made is None or not torch.allclose(made, right)


def test_a_compiled_region_is_told() -> None:
    z = _z(4, 3)
    compiled = torch.compile(lambda x: (x.sin() * x).tanh(), backend="aot_eager")
    y = compiled(z)
    with pytest.raises(NoSecondDerivative, match="call the uncompiled function"):
        gw.batch_jacobian(y, z, create_graph=True)
    torch.testing.assert_close(gw.batch_jacobian(y, z), gw.batch_jacobian((z.sin() * z).tanh(), z))


def test_a_region_compiled_without_autograd_is_twice_differentiable() -> None:
    z = _z(4, 3)
    y = torch.compile(lambda x: (x.sin() * x).tanh(), backend="eager")(z)
    torch.testing.assert_close(
        gw.batch_jacobian(y, z, create_graph=True), gw.batch_jacobian((z.sin() * z).tanh(), z, create_graph=True)
    )


def test_what_lies_beside_the_way_is_free() -> None:
    z = _z(4, 3)
    beside = F.hardsigmoid(nn.Linear(3, 3).double()(torch.ones(4, 3, dtype=torch.float64)))
    assert gw.batch_jacobian(z.square() * beside, z, create_graph=True).requires_grad


def test_the_cpu_lstm_of_onednn_is_twice_differentiable() -> None:
    """In float32 the CPU runs an LSTM as one node of oneDNN, in float64 as many small ones."""
    torch.manual_seed(0)
    lstm, z = nn.LSTM(2, 3, batch_first=True), torch.rand(2, 4, 2)
    made = []
    for dtype in (torch.float32, torch.float64):
        start = z.to(dtype).requires_grad_()
        y = lstm.to(dtype)(start)[0][:, -1]
        jacobian = gw.batch_jacobian(y, start, create_graph=True)
        made.append(torch.autograd.grad(jacobian.square().sum(), start)[0])
    torch.testing.assert_close(made[0], made[1].float(), rtol=1e-4, atol=1e-7)


def test_first_derivatives_of_a_listed_node_are_taken() -> None:
    z = _z(2, 1, 3, 4)
    fused = F.scaled_dot_product_attention(z, z, z)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        decomposed = F.scaled_dot_product_attention(z, z, z)
    torch.testing.assert_close(gw.batch_jacobian(fused, z), gw.batch_jacobian(decomposed, z))
    assert short_name(fused.grad_fn) in WITHOUT_SECOND
