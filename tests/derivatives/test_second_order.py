"""Nodes without a second derivative are found before anything is computed; the list of them is asked of this torch."""

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
from gradwright.derivatives.suspicions import ask, is_right_twice
from gradwright.derivatives.suspicions.examples import EXAMPLES
from gradwright.errors import NoSecondDerivative


def _z(*shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).requires_grad_()


SUSPECTED = sorted(WITHOUT_SECOND.keys() & EXAMPLES.keys())


@pytest.mark.filterwarnings("ignore:Sparse")  # once in a process, of torch, which a caller has seen before
@pytest.mark.parametrize("name", [name for name in SUSPECTED if EXAMPLES[name].dtype == torch.float64])
def test_a_suspicion_holds_where_gradgradcheck_rejects(name: str) -> None:
    function, x = EXAMPLES[name].function, EXAMPLES[name].draw_input()
    try:
        right = torch.autograd.gradgradcheck(function, x, atol=1e-4, raise_exception=False)
    except RuntimeError as error:
        assert "not implemented" in str(error)
        right = False
    assert ask(is_right_twice, name).holds is not right


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("name", SUSPECTED)
def test_a_suspicious_node_is_refused_before_computing_or_differentiates_twice(name: str) -> None:
    x = EXAMPLES[name].draw_input()
    y = EXAMPLES[name].function(x).reshape(1, -1)
    touched: list[Tensor] = []
    x.register_hook(touched.append)
    if ask(is_right_twice, name).holds:
        with pytest.raises(NoSecondDerivative, match=f"{name} has no second derivative"):
            gw.batch_jacobian(y, x, batch_dim=(0, None), create_graph=True)
        assert not touched
    else:
        assert gw.batch_jacobian(y, x, batch_dim=(0, None), create_graph=True).requires_grad


def _pairs(x: Tensor) -> Tensor:
    first, second = torch.triu_indices(4, 4, 1)
    return x[:, first] - x[:, second]


def _to_others(x: Tensor) -> Tensor:
    return x[:, :, None] - (x.detach().flip(1) + 2)[:, None]


DISTANCES: dict[str, tuple[Callable[[Tensor, float], Tensor], Callable[[Tensor], Tensor]]] = {
    "CdistBackward0": (lambda x, p: torch.cdist(x, x.detach().flip(1) + 2, p), _to_others),
    "PdistBackward0": (lambda x, p: torch.stack([torch.pdist(one, p) for one in x]), _pairs),
}


@pytest.mark.parametrize("p", (1.5, 2.0, 3.0))
@pytest.mark.parametrize("name", DISTANCES)
def test_second_derivatives_of_distances_are_those_of_written_out_ones_or_refused(name: str, p: float) -> None:
    """Torch 2.14 has them, 2.13 has not."""
    distances, differences = DISTANCES[name]
    x = _z(3, 4, 2)
    fused = distances(x, p).flatten(1).square().sum(1).exp()
    written = differences(x).abs().pow(p).sum(-1).pow(1 / p).flatten(1).square().sum(1).exp()
    torch.testing.assert_close(fused, written)
    if not ask(is_right_twice, name).holds and name == "PdistBackward0":
        with pytest.raises(gw.DerivativeError, match="third derivative of PdistBackward0"):  # it is NaN
            gw.laplacian(fused, x, create_graph=True)
    for derive in (gw.laplacian, gw.batch_hessian):
        if ask(is_right_twice, name).holds:
            with pytest.raises(NoSecondDerivative, match=f"{name} has no second derivative"):
                derive(fused, x)
        else:
            torch.testing.assert_close(derive(fused, x), derive(written, x))


def test_a_kernel_that_was_not_tried_is_said_to_be_of_another_torch() -> None:
    assert not ask(is_right_twice, "PdistBackward0").describe_origin()
    said = ask(is_right_twice, "CudnnRnnBackward0").describe_origin()
    assert said == (
        f"\n  known  of torch 2.13.0 (2026-11-21); not tried in torch {torch.__version__}: no small call on a CPU is "
        "known to record it"
    )


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
