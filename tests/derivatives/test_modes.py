"""Every derivative is the same under ``no_grad`` and ``inference_mode``: what is differentiated was recorded before."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pytest
import torch
from tests.derivatives.asking import asking
from tests.laws import Laws
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge

import gradwright as gw
from gradwright.derivatives.graph.options import Batch
from gradwright.errors import UsageError

DOUBLE = torch.float64
B, D = 4, 3

#: What a caller may be under.
Mode = Callable[[], AbstractContextManager[object]]
MODES: list[Mode] = [torch.no_grad, torch.inference_mode]
every_mode = pytest.mark.parametrize("mode", MODES, ids=["no_grad", "inference_mode"])

#: How a request stands: the axis of the batch in wrt, what is done about samples that meet, whether wrt is a leaf.
HOW: dict[str, tuple[int | None, Batch, bool]] = {
    "batch first": (0, "auto", True),
    "batch on axis 1": (1, "auto", True),
    "coupled": (0, "coupled", True),
    "coupled, batch on axis 1": (1, "coupled", True),
    "a hidden layer": (0, "auto", False),
    "a hidden layer, batch on axis 1": (1, "auto", False),
    "a shared parameter": (None, "auto", True),
}

#: y [B], wrt, batch_dim and batch.
Asked = tuple[Tensor, Tensor, tuple[int, int | None], Batch]


def sample(z: Tensor) -> Tensor:
    """A number of one sample's z [D], all of whose second derivatives are other than zero."""
    return (z * torch.arange(1.0, D + 1, dtype=DOUBLE)).sum().sin() * z.exp().sum()


def recorded(how: str) -> Asked:
    """What is asked for, its graph made in the ordinary mode."""
    axis, batch, leaf = HOW[how]
    drawn = torch.randn(B, D, generator=torch.Generator().manual_seed(2), dtype=DOUBLE)
    if axis is None:
        shared = nn.Parameter(drawn[0])
        return torch.stack([sample(row * shared) for row in drawn]), shared, (0, None), batch
    z = drawn.movedim(0, axis).contiguous().requires_grad_()
    wrt = z if leaf else z * 1.0
    return torch.stack([sample(row) for row in wrt.movedim(axis, 0)]), wrt, (0, axis), batch


def nested_gradients(y: Tensor, wrt: Tensor, axis: int | None, create_graph: bool) -> list[Tensor]:
    """dy[b] / dwrt[b], [D] for each sample, by a backward for each."""
    rows = [torch.autograd.grad(one, wrt, retain_graph=True, create_graph=create_graph)[0] for one in y.unbind()]
    return rows if axis is None else [row.select(axis, b) for b, row in enumerate(rows)]


def nested_hessians(y: Tensor, wrt: Tensor, axis: int | None, create_graph: bool) -> Tensor:
    """d2y[b] / dwrt[b]^2, [B, D, D]."""
    blocks = []
    for b, gradient in enumerate(nested_gradients(y, wrt, axis, True)):
        rows = [
            torch.autograd.grad(entry, wrt, retain_graph=True, create_graph=create_graph)[0]
            for entry in gradient.unbind()
        ]
        blocks.append(torch.stack(rows if axis is None else [one.select(axis, b) for one in rows]))
    return torch.stack(blocks)


def made(name: str, asked: Asked, create_graph: bool) -> Tensor:
    y, wrt, batch_dim, batch = asked
    if name == "hvp":
        vector = torch.ones_like(wrt).cumsum(-1).detach()
        return gw.hvp(y, wrt, vector, batch_dim=batch_dim, batch=batch, create_graph=create_graph)
    options: dict[str, str] = {"mode": "reverse"} if name == "laplacian" else {}
    made: Tensor = getattr(gw, name)(y, wrt, batch_dim=batch_dim, batch=batch, create_graph=create_graph, **options)
    return made


def truth(name: str, asked: Asked, create_graph: bool) -> Tensor:
    y, wrt, (_, axis), _ = asked
    if name in ("batch_jacobian", "batch_gradient"):
        return torch.stack(nested_gradients(y, wrt, axis, create_graph))
    if name == "jacobian_norm":
        return torch.stack(nested_gradients(y, wrt, axis, create_graph)).square().sum(1).sqrt()
    hessians = nested_hessians(y, wrt, axis, create_graph)
    if name == "batch_hessian":
        return hessians
    if name == "hessian_diagonal":
        return hessians.diagonal(dim1=1, dim2=2)
    if name == "laplacian":
        return hessians.diagonal(dim1=1, dim2=2).sum(1)
    vector = torch.ones_like(wrt).cumsum(-1).detach()
    if axis is None:
        return hessians.sum(0) @ vector
    own = (hessians @ vector.movedim(axis, 0).unsqueeze(2)).squeeze(2)
    return own.movedim(0, axis)


NAMES = (
    "batch_jacobian",
    "batch_gradient",
    "jacobian_norm",
    "batch_hessian",
    "hessian_diagonal",
    "laplacian",
    "hvp",
)
every_name = pytest.mark.parametrize("name", NAMES)


@dataclass(frozen=True)
class Case:
    """A derivative, and how it is asked for."""

    name: str
    how: str


laws = Laws[Case]()


@laws
def a_graph_that_exists_is_differentiated(case: Case) -> None:
    for mode in MODES:
        with asking(mode=mode.__name__):
            asked = recorded(case.how)  # anew: what one mode may leave on a graph the other doesn't meet
            with mode():
                ours = made(case.name, asked, False)
            assert not ours.requires_grad
            assert not ours.is_inference()
            torch.testing.assert_close(ours, truth(case.name, asked, False))


@laws
def a_graph_that_is_asked_for_is_made_under_no_grad(case: Case) -> None:
    asked = recorded(case.how)
    with torch.no_grad():
        ours = made(case.name, asked, True)
    weight = torch.arange(1.0, ours.numel() + 1, dtype=DOUBLE).reshape(ours.shape)
    found, right = (
        torch.autograd.grad((weight * values).sum(), asked[1], retain_graph=True)[0]
        for values in (ours, truth(case.name, asked, True))
    )
    torch.testing.assert_close(found, right)


@pytest.mark.parametrize("how", HOW)
@every_name
def test_a_derivative_keeps_every_law(name: str, how: str) -> None:
    laws.hold(Case(name, how))


@every_mode
def test_divergences_and_products_are_made(mode: Mode) -> None:
    z = torch.randn(B, D, generator=torch.Generator().manual_seed(2), dtype=DOUBLE).requires_grad_()
    v = z.exp() * z.sum(1, keepdim=True)
    given = torch.arange(1.0, B * D + 1, dtype=DOUBLE).reshape(B, D)
    jacobian = torch.diag_embed(v.detach()) + z.detach().exp()[:, :, None]
    with mode():
        found = gw.divergence(v, z), gw.divergence(v, z, batch="coupled"), gw.vjp(v, z, given), gw.jvp(v, z, given)
    rows, columns = (given[:, None] @ jacobian).squeeze(1), (jacobian @ given[:, :, None]).squeeze(2)
    trace = jacobian.diagonal(dim1=1, dim2=2).sum(1)
    for ours, right in zip(found, (trace, trace, rows, columns), strict=True):
        assert not ours.is_inference()
        torch.testing.assert_close(ours, right)


@pytest.mark.parametrize("batch", ["auto", "coupled"])
def test_a_divergence_under_no_grad_can_be_differentiated(batch: Batch) -> None:
    z = torch.randn(B, D, dtype=DOUBLE, requires_grad=True)
    v = z**3
    with torch.no_grad():
        ours = gw.divergence(v, z, batch=batch, create_graph=True)
    torch.testing.assert_close(torch.autograd.grad(ours.sum(), z)[0], 6 * z.detach())


@every_mode
@pytest.mark.parametrize("batch", ["auto", "coupled"])
def test_gradients_of_samples_are_made(batch: Batch, mode: Mode) -> None:
    weight = torch.randn(D, dtype=DOUBLE, requires_grad=True)
    x = torch.randn(B, D, dtype=DOUBLE)
    losses = (x * weight).sum(1).exp()
    with mode():
        ours = gw.per_sample_gradients(losses, weight, batch=batch)
        called = gw.per_sample_gradients(lambda: (x * weight).sum(1).exp(), weight, batch=batch)
    for found in (ours, called):
        torch.testing.assert_close(found, losses.detach()[:, None] * x)


@every_mode
def test_it_is_told_whether_samples_meet(mode: Mode) -> None:
    z = torch.randn(D, B, dtype=DOUBLE, requires_grad=True)
    apart, meeting = z.T.exp(), (z - z.mean(1, keepdim=True)).T.exp()
    with mode():
        held, met = (gw.check_batch_independence(y, z, batch_dim=(0, 1)) for y in (apart, meeting))
    assert held.verdict in ("proved", "held")
    assert met.verdict == "coupled"


@every_mode
def test_a_plan_is_made(mode: Mode) -> None:
    asked = recorded("a shared parameter")[:2]
    with mode():
        plans = [gw.plan(*asked), gw.plan(*asked, max_bytes=10**6)]
    assert [each.choice for each in plans] == [gw.plan(*asked).choice, gw.plan(*asked, max_bytes=10**6).choice]


@every_mode
def test_a_function_is_differentiated_at_tensors_made_there(mode: Mode) -> None:
    with mode():
        x = torch.arange(6.0, dtype=DOUBLE).reshape(3, 2)
        hessians = gw.batch_hessian(lambda x: x.sin().sum(1), x)
    torch.testing.assert_close(hessians, torch.diag_embed(-x.clone().sin()))


@every_mode
def test_a_leaf_that_a_module_puts_out_is_captured(mode: Mode) -> None:
    class Constant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.value = nn.Parameter(torch.ones(B, D))

        def forward(self) -> Tensor:
            return self.value

    module = Constant()
    with mode(), gw.capture(module) as kept:
        module()
    assert isinstance(kept.edge, GradientEdge)
    assert gw.batch_jacobian(module.value * 2, wrt=kept, batch_dim=0).shape == (B, D, D)


@every_name
def test_no_graph_can_be_asked_for_in_inference_mode(name: str) -> None:
    asked = recorded("batch first")
    with torch.inference_mode(), pytest.raises(UsageError, match="leave the inference mode"):
        made(name, asked, True)


def test_nor_of_products_nor_of_samples() -> None:
    z = torch.randn(B, D, dtype=DOUBLE, requires_grad=True)
    y, ones = z.exp(), torch.ones(B, D, dtype=DOUBLE)
    with torch.inference_mode():
        for ours in (
            lambda: gw.vjp(y, z, ones, create_graph=True),
            lambda: gw.jvp(y, z, ones, create_graph=True),
            lambda: gw.divergence(y, z, create_graph=True),
            lambda: gw.per_sample_gradients(y.sum(1), z, create_graph=True),
            lambda: gw.penalties.partials(y.sum(1), [z[:, :1]], "x", ["x"]),
        ):
            with pytest.raises(UsageError, match="leave the inference mode"):
                ours()
