"""What can't be had as asked is an error that says what, why, and what to do."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.checkpoint
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode

import gradwright as gw
from gradwright.errors import DerivativeError, UsageError


def _latent() -> Tensor:
    return torch.randn(5, 3, generator=torch.Generator().manual_seed(3)).requires_grad_() * 1.0


@pytest.mark.parametrize("mode", ["auto", "reverse", "forward"])
def test_a_freed_graph_is_told(mode: Any) -> None:
    z = _latent()
    y = z.exp().tanh()
    y.sum().backward(retain_graph=False)
    with pytest.raises(DerivativeError, match=r"freed by an earlier backward.*retain_graph=True"):
        gw.batch_jacobian(y, z, mode=mode)


@pytest.mark.parametrize("mode", ["auto", "reverse", "forward"])
def test_a_saved_tensor_that_was_changed_in_place_is_told(mode: Any) -> None:
    z = _latent()
    h = z.exp()
    y = h.square()
    h.detach().zero_()
    with pytest.raises(DerivativeError, match="changed in place after the forward"):
        gw.batch_jacobian(y, z, mode=mode)


@pytest.mark.parametrize(
    ("off", "told"),
    [
        (lambda z: z.view(3, 5).view(5, 3), "made, by ViewBackward0, from a value that y depends on"),
        (lambda z: z.clone(), "made, by CloneBackward0, from a value that y depends on"),
        (lambda z: z.detach().requires_grad_(), "computed from another tensor"),
        (lambda z: copy.deepcopy(z.detach()).requires_grad_(), "computed from another tensor"),
    ],
    ids=["view", "copy", "detached", "deep copy"],
)
def test_a_target_off_the_way_is_told(off: Callable[[Tensor], Tensor], told: str) -> None:
    z = _latent()
    with pytest.raises(DerivativeError, match=told):
        gw.batch_jacobian(z.tanh(), off(z))


def test_a_target_that_was_changed_in_place_is_told() -> None:
    z = _latent()
    y = z.sin() * 2
    z.mul_(2)
    with pytest.raises(DerivativeError, match=r"changed in place \(1 times\).*gw.capture"):
        gw.batch_jacobian(y, z)


def test_an_output_without_a_graph_is_told() -> None:
    z = _latent()
    with torch.no_grad():
        y = z * 2
    with pytest.raises(DerivativeError, match=r"belongs to no graph.*no_grad"):
        gw.batch_jacobian(y, z)
    with torch.inference_mode():
        inferred = torch.ones(5, 3) * 2
    with pytest.raises(DerivativeError, match="inference_mode"):
        gw.batch_jacobian(inferred, z)
    with pytest.raises(DerivativeError, match=r"torch.int64: only floating point"):
        gw.batch_jacobian(z.argsort(1), z)


def test_an_output_that_is_a_leaf_is_told() -> None:
    with pytest.raises(DerivativeError, match="a leaf"):
        gw.batch_jacobian(torch.ones(5, 3, requires_grad=True), _latent())


def test_a_target_without_gradients_is_told() -> None:
    with pytest.raises(UsageError, match=r"requires_grad=False.*requires_grad_\(\) before"):
        gw.batch_jacobian(_latent().tanh(), torch.ones(5, 3))


def test_a_scalar_has_no_batch() -> None:
    z = _latent()
    with pytest.raises(UsageError, match=r"y is a scalar.*before the sum or mean"):
        gw.batch_jacobian(z.sum(), z)


def test_batches_of_different_size_are_told_with_the_option_that_says_where_they_are() -> None:
    z = _latent()
    with pytest.raises(UsageError, match=r"3 samples along axis 0 .* 5 along axis 0 .*batch_dim="):
        gw.batch_jacobian(z.T * 2, z)
    torch.testing.assert_close(
        gw.batch_jacobian(z.T * 2, z, batch_dim=(1, 0)), gw.batch_jacobian(z * 2, z), rtol=0, atol=0
    )


@pytest.mark.parametrize(
    "batch_dim", [7, (0, -3), (0, 1, 2), 0.0, True, "0"], ids=["7", "(0,-3)", "three", "float", "bool", "text"]
)
def test_a_batch_axis_that_is_none_is_told(batch_dim: Any) -> None:
    z = _latent()
    with pytest.raises(UsageError, match="batch_dim="):
        gw.batch_jacobian(z.tanh(), z, batch_dim=batch_dim)


@pytest.mark.parametrize("wrt", ["z", None, np.ones(3), [1]], ids=["text", "None", "numpy", "list"])
def test_what_is_no_target_is_told(wrt: Any) -> None:
    with pytest.raises(UsageError, match="wrt is a"):
        gw.batch_jacobian(_latent().tanh(), wrt)


def test_what_is_no_output_is_told() -> None:
    z = _latent()
    with pytest.raises(UsageError, match="y is a tuple"):
        gw.batch_jacobian((z.tanh(),), z)  # type: ignore[arg-type]


def test_sparse_and_nested_tensors_are_told() -> None:
    z = _latent()
    with pytest.raises(UsageError, match=r"layout torch.sparse_coo"):
        gw.batch_jacobian(z.to_sparse(), z)
    ragged = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)], layout=torch.jagged, requires_grad=True)
    with pytest.raises(UsageError, match="nested tensor"):
        gw.batch_jacobian(ragged * 2, ragged)
    with pytest.raises(UsageError, match="nested tensor"):
        gw.batch_jacobian(z, ragged)


def test_tensors_without_values_are_told() -> None:
    with FakeTensorMode():
        z = torch.ones(5, 3, requires_grad=True)
        y = z.tanh()
    with pytest.raises(UsageError, match="which has a shape and no values"):
        gw.batch_jacobian(y, z)
    meta = torch.ones(5, 3, device="meta", requires_grad=True)
    with pytest.raises(UsageError, match="on meta"):
        gw.batch_jacobian(meta.tanh(), meta)


@pytest.mark.parametrize("transform", ["vmap", "grad", "jacrev"])
def test_a_call_inside_a_transform_is_told(transform: str) -> None:
    z = _latent().detach()

    def inner(x: Tensor) -> Tensor:
        return gw.batch_jacobian(x.tanh(), x).sum()

    with pytest.raises(UsageError, match=r"inside a transform of torch.func"):
        if transform == "vmap":
            torch.func.vmap(inner)(z.expand(2, 5, 3))
        elif transform == "grad":
            torch.func.grad(inner)(z)
        else:
            torch.func.jacrev(inner)(z)


def test_an_operation_without_a_derivative_is_told() -> None:
    z = _latent().detach().requires_grad_()
    with pytest.raises(DerivativeError, match="has no derivative: autograd recorded NotImplemented"):
        gw.batch_jacobian(torch._sample_dirichlet(z.exp()), z)


def test_an_operation_that_would_pass_zeros_on_is_told() -> None:
    library = torch.library.Library("gradwright_test_errors", "DEF")
    library.define("opaque(Tensor x) -> Tensor")
    library.impl("opaque", lambda x: torch.from_numpy(x.detach().numpy() * 2), "CPU")
    z = _latent()
    with pytest.raises(DerivativeError, match="recorded WarnNotImplemented for it, which warns and passes no"):
        gw.batch_jacobian(torch.ops.gradwright_test_errors.opaque(z.tanh()), z)


def test_reentrant_checkpoints_are_told() -> None:
    z = _latent()
    layer = nn.Linear(3, 3)
    y = torch.utils.checkpoint.checkpoint(layer, z, use_reentrant=True)
    with pytest.raises(DerivativeError, match="use_reentrant=False"):
        gw.batch_jacobian(y, z)
    kept = torch.utils.checkpoint.checkpoint(layer, z, use_reentrant=False)
    torch.testing.assert_close(gw.batch_jacobian(kept, z), layer.weight.expand(5, 3, 3))


def test_independence_is_not_asked_of_a_parameter() -> None:
    layer = nn.Linear(3, 2)
    with pytest.raises(UsageError, match="belongs to all samples together"):
        gw.check_batch_independence(layer(_latent()), layer.weight)


@pytest.mark.parametrize("samples", [0, 1])
def test_no_sample_and_one_sample_are_batches(samples: int) -> None:
    z = torch.ones(samples, 3, requires_grad=True)
    y = nn.functional.layer_norm(z, (3,))
    assert gw.batch_jacobian(y, z).shape == (samples, 3, 3)
    assert gw.check_batch_independence(y, z).verdict == "proved"


@pytest.mark.parametrize("limit", [None, 1 << 20], ids=["no limit", "max_bytes"])
@pytest.mark.parametrize("call", [gw.batch_jacobian, gw.plan], ids=["batch_jacobian", "plan"])
def test_forwards_that_can_not_reach_from_a_shared_target_are_told(call: Any, limit: int | None) -> None:
    shared = nn.Parameter(torch.ones(3, dtype=torch.float32))
    y = (_latent().detach() * shared).double()  # of another dtype than wrt: columns would have it, rows would not
    with pytest.raises(UsageError, match=r'mode="forward" is impossible here\. pushed: y is torch.float64'):
        call(y, shared, mode="forward", max_bytes=limit)
    assert call(y, shared, max_bytes=limit) is not None
