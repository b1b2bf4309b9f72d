from __future__ import annotations

from collections.abc import Sequence
from unittest import mock

import pytest
import torch
from tests.derivatives.functions import Same
from tests.penalties.loops import points, same_training, tail
from torch import Tensor, nn

from gradwright.derivatives.methods.pushed import push_jets
from gradwright.errors import CoupledBatch, DerivativeError, UsageError
from gradwright.penalties import fields, partials


def by_single_samples(net: nn.Module, x: Tensor, orders: Sequence[int], output: int = 0) -> Tensor:
    """One derivative, sample by sample and order by order, with ``torch.autograd.grad`` of single numbers."""
    values = []
    for b in range(len(x)):
        value = net(x)[b, output]
        for column in orders:
            (gradient,) = torch.autograd.grad(value, x, create_graph=True)
            value = gradient[b, column]
        values.append(value)
    return torch.stack(values)


@pytest.mark.parametrize("name", ["", "x", "t", "xx", "xt", "tx", "tt", "xxx", "xxt", "xtxt"], ids=lambda n: n or "u")
def test_a_partial_derivative_trains_as_its_loop_does(name: str) -> None:
    net, xt = tail(1, 2), points(3, 2)
    found = partials(net(xt), wrt=xt, names="xt", of=(name,))[name].squeeze(1)
    expected = by_single_samples(net, xt, ["xt".index(letter) for letter in name])
    assert same_training(found, expected, list(net.parameters()))


def test_the_loop_rejects_a_derivative_by_another_coordinate_or_off_the_graph() -> None:
    net, xt = tail(1, 2), points(3, 2)
    d = partials(net(xt), wrt=xt, names="xt", of=("xx", "xt"))
    expected = by_single_samples(net, xt, (0, 0))
    assert not same_training(d["xt"].squeeze(1), expected, list(net.parameters()))
    assert not same_training(d["xx"].detach().squeeze(1), expected, list(net.parameters()))


def test_every_component_of_a_field_is_differentiated() -> None:
    net, xyt = tail(3, 3), points(4, 3)
    d = partials(net(xyt), wrt=xyt, names="xyt", of=("t", "xx", "xy"))
    for name, orders in {"t": (2,), "xx": (0, 0), "xy": (0, 1)}.items():
        assert d[name].shape == (4, 3)
        for output in range(3):
            expected = by_single_samples(net, xyt, orders, output)
            assert same_training(d[name][:, output], expected, list(net.parameters()))


@pytest.mark.parametrize("outputs", [1, 2], ids=["one field", "two fields"])
def test_a_sum_of_second_derivatives_is_carried_forward_and_trains_as_its_loop_does(outputs: int) -> None:
    net, xyt = tail(outputs, 3), points(3, 3)
    with mock.patch.object(fields, "push_jets", wraps=push_jets) as pushes:
        d = partials(net(xyt), wrt=xyt, names="xyt", of=("t", "xx + yy"))
    assert pushes.call_count == 1
    for output in range(outputs):
        expected = by_single_samples(net, xyt, (0, 0), output) + by_single_samples(net, xyt, (1, 1), output)
        assert same_training(d["xx + yy"][:, output], expected, list(net.parameters()))
        assert not same_training(d["xx + yy"][:, output], 2 * expected, list(net.parameters()))
        by_time = by_single_samples(net, xyt, (2,), output)
        assert same_training(d["t"][:, output], by_time, list(net.parameters()))


@pytest.mark.parametrize(
    ("of", "apart"),
    [(("xx+yy", "xx"), False), (("xx+xx",), False), (("x+yy",), False), (("xx+xy",), False), (("xx+yy",), True)],
    ids=["one is there", "twice one", "other orders", "mixed", "coordinates apart"],
)
def test_other_sums_are_added_up(of: tuple[str, ...], apart: bool) -> None:
    net, xy = tail(1, 2), points(3, 2)
    x, y = (xy.detach()[:, k : k + 1].requires_grad_() for k in range(2))
    u, wrt = (net(torch.cat([x, y], 1)), (x, y)) if apart else (net(xy), xy)
    with mock.patch.object(fields, "push_jets", side_effect=AssertionError("pushed")):
        found = partials(u, wrt=wrt, names="xy", of=of)[of[0]].squeeze(1)
    expected = sum(by_single_samples(net, xy, ["xy".index(letter) for letter in term]) for term in of[0].split("+"))
    assert isinstance(expected, Tensor)
    assert same_training(found, expected, list(net.parameters()))


def test_a_sum_heeds_a_hook_and_an_unknown_step() -> None:
    xy = points(4, 2)
    hooked = xy * 2
    hooked.register_hook(lambda cotangent: 3 * cotangent)
    for inner in (hooked, Same.apply(xy * 2)):
        u = inner.pow(3).sum(1)
        singles = partials(u, wrt=xy, names="xy", of=("xx", "yy"))
        found = partials(u, wrt=xy, names="xy", of=("xx+yy",))["xx+yy"]
        torch.testing.assert_close(found, singles["xx"] + singles["yy"])


def test_a_sum_of_a_field_without_curvature_is_zero() -> None:
    xy = points(4, 2)
    found = partials(xy[:, :1] * 3 + xy[:, 1:], wrt=xy, names="xy", of=("xx+yy",))["xx+yy"]
    assert found.shape == (4, 1) and not found.any()


def test_burgers_residual_reads_as_its_equation() -> None:
    xt = points(6, 2)
    x, t = xt.unbind(1)
    u = (-t).exp() * x.sin()
    d = partials(u, wrt=xt, names="xt", of=("x", "t", "xx"))
    residual = d["t"] + u * d["x"] - 0.1 * d["xx"]
    truth = -u + u * (-t).exp() * x.cos() + 0.1 * u
    torch.testing.assert_close(residual, truth)


@pytest.mark.parametrize("shape", [(6,), (6, 1)], ids=str)
def test_coordinates_may_be_tensors_of_their_own(shape: tuple[int, ...]) -> None:
    x, t = (points(6, 1, seed).detach().reshape(shape).requires_grad_() for seed in (1, 2))
    u = (-t).exp() * x.sin()
    d = partials(u, wrt=(x, t), names="xt", of=("x", "t", "xx", "xt", "tt"))
    fall, sin, cos = (-t).exp(), x.sin(), x.cos()
    for name, truth in {"x": fall * cos, "t": -fall * sin, "xx": -fall * sin, "xt": -fall * cos, "tt": u}.items():
        torch.testing.assert_close(d[name], truth)


def test_a_function_is_called_once_with_the_points() -> None:
    calls = []

    def field(xt: Tensor) -> Tensor:
        calls.append(xt)
        return xt[:, 0] ** 2 * xt[:, 1]

    d = partials(field, wrt=torch.tensor([[3.0, 2.0]]), names="xt", of=("", "xx"))
    assert len(calls) == 1
    assert {name: value.tolist() for name, value in d.items()} == {"": [18.0], "xx": [4.0]}


def test_names_of_several_letters_are_told_by_tuples() -> None:
    z = torch.tensor([[3.0, 2.0]], requires_grad=True)
    d = partials(z[:, 0] ** 2 * z[:, 1], wrt=z, names=("x1", "x2"), of=[("x1",), ("x1", "x2")])
    assert {name: value.tolist() for name, value in d.items()} == {("x1",): [12.0], ("x1", "x2"): [6.0]}


@pytest.mark.parametrize(
    ("of", "backwards"),
    [(("x",), 1), (("x", "t"), 1), (("x", "t", "xx"), 2), (("x", "t", "xx", "xt"), 2), (("xx", "xt", "tt"), 3),
     (("xx", "xxt", "xxx"), 3)],
    ids=str,
)  # fmt: skip
def test_each_field_is_gone_back_through_once(of: tuple[str, ...], backwards: int) -> None:
    xt = points(4, 2)
    u = xt.prod(1).sin()
    with mock.patch.object(fields, "_gradients_of", wraps=fields._gradients_of) as gone_back:
        partials(u, wrt=xt, names="xt", of=of)
    assert gone_back.call_count == backwards


@pytest.mark.parametrize("of", [("x",), ("x", "xx")], ids=str)
def test_points_that_meet_are_refused(of: tuple[str, ...]) -> None:
    xt = points(5, 2)
    net = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1)).double()
    with pytest.raises(CoupledBatch):
        partials(net(xt), wrt=xt, names="xt", of=of)


def test_points_that_meet_in_the_second_derivative_alone_are_refused() -> None:
    def backward_with_a_mean(x: Tensor) -> Tensor:
        return _Meets.apply(x)

    xt = points(5, 2)
    with pytest.raises(CoupledBatch):
        partials(backward_with_a_mean(xt).sum(1), wrt=xt, names="xt", of=("x", "xx"))


class _Meets(torch.autograd.Function):
    """A backward that is linear in its cotangent, sample by sample, with a slope that all samples make together."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)  # type: ignore[attr-defined]
        return x.sin()

    @staticmethod
    def backward(ctx: object, cotangent: Tensor) -> Tensor:  # type: ignore[override]
        (x,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return cotangent * (x.cos() + x.mean())


class Centred(nn.Module):
    """Less the mean of the batch: its points meet."""

    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


def test_meeting_points_can_be_had_exactly() -> None:
    torch.manual_seed(0)
    xt = points(3, 2)
    net = nn.Sequential(nn.Linear(2, 4), Centred(), nn.Tanh(), nn.Linear(4, 1)).double()
    d = partials(net(xt), wrt=xt, names="xt", of=("t", "xx"), batch="coupled")
    assert same_training(d["t"].squeeze(1), by_single_samples(net, xt, (1,)), list(net.parameters()))
    assert same_training(d["xx"].squeeze(1), by_single_samples(net, xt, (0, 0)), list(net.parameters()))


class Normalised(nn.Module):
    """A layer norm, written out."""

    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean(1, keepdim=True)) * (x.var(1, keepdim=True, correction=0) + 1e-5).rsqrt()


@pytest.mark.parametrize("name", ["x", "xx", "tt", "xxx", "xx + tt"])
def test_a_partial_derivative_through_a_layer_norm_trains_as_through_one_written_out(name: str) -> None:
    torch.manual_seed(0)
    first, last, xt = nn.Linear(2, 4).double(), nn.Linear(4, 1).double(), points(3, 2)
    fused, written = (
        partials(nn.Sequential(first, norm, nn.Tanh(), last)(xt), wrt=xt, names="xt", of=(name,))[name]
        for norm in (nn.LayerNorm(4, elementwise_affine=False), Normalised())
    )
    assert same_training(fused, written, [*first.parameters(), *last.parameters()])


def test_a_mixed_derivative_through_a_layer_norm_is_refused_as_its_training_would_be_wrong() -> None:
    xt = points(3, 2)
    net = nn.Sequential(nn.Linear(2, 4), nn.LayerNorm(4), nn.Tanh(), nn.Linear(4, 1)).double()
    with pytest.raises(DerivativeError, match="third derivative of NativeLayerNormBackward0"):
        partials(net(xt), wrt=xt, names="xt", of=("xt",))


def test_nobody_looks_when_told_so() -> None:
    torch.manual_seed(0)
    xt = points(5, 2)
    net = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1)).double()
    u = net(xt)
    d = partials(u, wrt=xt, names="xt", of=("x",), batch="assume_independent")
    torch.testing.assert_close(d["x"], torch.autograd.grad(u.sum(), xt)[0][:, :1])


def test_a_hook_on_the_way_is_heeded() -> None:
    xt = points(5, 2)
    z = xt * 2
    z.register_hook(lambda cotangent: 3 * cotangent)
    d = partials(z.square().sum(1), wrt=xt, names="xt", of=("x",))
    torch.testing.assert_close(d["x"], 3 * 8 * xt[:, 0])


def test_a_field_linear_in_a_coordinate_has_second_derivative_zero() -> None:
    xt = points(4, 2)
    d = partials(xt[:, 0] * 3 + xt[:, 1], wrt=xt, names="xt", of=("xx", "xt"))
    assert not d["xx"].any() and d["xx"].shape == (4,)
    relu = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1)).double()
    assert not partials(relu(xt), wrt=xt, names="xt", of=("xx",))["xx"].any()


def test_one_coordinate_of_two_may_be_missing_from_a_derivative() -> None:
    x, t = points(4, 1, 1), points(4, 1, 2)
    d = partials(x.sin() + t, wrt=(x, t), names="xt", of=("xx", "tt", "xt"))
    torch.testing.assert_close(d["xx"], -x.sin())
    assert not d["tt"].any() and not d["xt"].any()


def test_a_freed_graph_is_said() -> None:
    net, xt = tail(1, 2), points(4, 2)
    u = net(xt)
    u.sum().backward()
    for of in ("xx", "xx+tt"):
        with pytest.raises(DerivativeError, match="was freed by an earlier backward"):
            partials(u, wrt=xt, names="xt", of=(of,))


def test_autocast_around_it_changes_nothing() -> None:
    net, xt = tail(1, 2).float(), points(4, 2).detach().float().requires_grad_()
    u = net(xt)
    expected = partials(u, wrt=xt, names="xt", of=("xx",))["xx"]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(partials(u, wrt=xt, names="xt", of=("xx",))["xx"], expected)


def test_no_grad_around_it_changes_no_value() -> None:
    net, xt = tail(1, 2), points(4, 2)
    u = net(xt)
    expected = partials(u, wrt=xt, names="xt", of=("xx", "xt"))
    with torch.no_grad():
        found = partials(u, wrt=xt, names="xt", of=("xx", "xt"))
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value)


def test_a_gate_that_is_zero_now_makes_no_wrong_derivative() -> None:
    xt, gate = points(4, 2), torch.zeros((), dtype=torch.float64, requires_grad=True)

    def net(xt: Tensor) -> Tensor:
        return (xt.sin() + gate * xt.square().mean()).prod(1, keepdim=True)

    for name, orders in {"x": (0,), "xx": (0, 0)}.items():
        try:
            found = partials(net(xt), wrt=xt, names="xt", of=(name,))[name].squeeze(1)
        except CoupledBatch:
            continue
        expected = by_single_samples(net, xt, orders)  # type: ignore[arg-type]
        assert same_training(found, expected, [gate])


def test_learnt_points_are_points() -> None:
    xt = nn.Parameter(points(4, 2).detach())
    d = partials(xt.prod(1), wrt=xt, names="xt", of=("x",))
    torch.testing.assert_close(d["x"], xt[:, 1])


def test_no_points_have_no_derivatives() -> None:
    xt = points(0, 2)
    assert partials(tail(1, 2)(xt), wrt=xt, names="xt", of=("xx",))["xx"].shape == (0, 1)


@pytest.mark.parametrize(
    ("names", "of", "said"),
    [
        ("xt", ("y",), r"'y' names the coordinate 'y'; names='xt' has x, t"),
        ("xt", "xx", r"of='xx': give a sequence of derivatives"),
        ("xx", ("x",), r"names='xx': give every coordinate a name of its own"),
        ("xyt", ("x",), r"wrt has shape \[5, 2\], names has 3 coordinates: give one tensor \[N, 3\]"),
        (("x1", "x2"), ("x1",), r"'x1' names the coordinate 'x'.*tuple"),
    ],
    ids=["unknown", "one string", "twice", "columns", "long names"],
)
def test_names_that_do_not_fit_are_said(names: str, of: tuple[str, ...], said: str) -> None:
    xt = points(5, 2)
    with pytest.raises(UsageError, match=said):
        partials(xt.prod(1), wrt=xt, names=names, of=of)


def test_a_complex_field_is_refused() -> None:
    xt = points(4, 2)
    with pytest.raises(UsageError, match="take real outputs"):
        partials(torch.complex(xt.prod(1), xt.sum(1)), wrt=xt, names="xt", of=("x",))


def test_coordinates_that_do_not_fit_are_said() -> None:
    x, t = points(4, 1), points(4, 1, 2)
    with pytest.raises(UsageError, match="wrt has 1 coordinates, names has 2"):
        partials(x * t, wrt=(x,), names="xt", of=("x",))
    with pytest.raises(UsageError, match="call it"):
        partials(lambda x, t: x * t, wrt=(x, t), names="xt", of=("x",))
    with pytest.raises(DerivativeError, match="no way leads"):
        partials(x.sin(), wrt=(x, t), names="xt", of=("x",))
