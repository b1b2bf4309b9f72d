"""Tangents pushed along the recorded nodes are the columns of the Jacobian, and hold what they need, no more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from tests.derivatives.second_truth import NETS, made, one_hot_hessian, same_gradients
from tests.derivatives.truth import one_hot_jacobian
from torch import Tensor, nn

from gradwright.derivatives.graph.request import Request, read_request
from gradwright.derivatives.graph.target import read_target
from gradwright.derivatives.graph.way import find_way
from gradwright.derivatives.methods import pushed
from gradwright.derivatives.methods.carrying import same_for_all
from gradwright.derivatives.methods.method import every_direction
from gradwright.derivatives.methods.pushed import PUSHED, push_jets, why_not_pushed
from gradwright.derivatives.nodes import Jet, rule_of
from gradwright.derivatives.planning.chunks import chunk_for_cache
from gradwright.derivatives.planning.cost import machine_of
from gradwright.errors import DerivativeError

PUSHABLE = sorted(set(NETS) - {"own function"})


def columns(request: Request, chunk: int = 100) -> Tensor:
    return PUSHED.run(request, every_direction(request, "columns"), chunk)


@pytest.mark.parametrize("chunk", [1, 4, 100])
@pytest.mark.parametrize("name", PUSHABLE)
def test_unit_tangents_make_the_one_hot_jacobian(name: str, chunk: int) -> None:
    net, z = made(name)
    y = net(z)
    request = read_request(y, z, 0, False)
    assert PUSHED.unfit(request) is None
    torch.testing.assert_close(columns(request, chunk), one_hot_jacobian(y, z))
    assert not columns(request).requires_grad


@pytest.mark.parametrize("name", sorted(set(PUSHABLE) - {"relu"}))
def test_what_is_pushed_with_a_graph_has_the_gradients_of_one_hots(name: str) -> None:
    net, z = made(name)
    y = net(z)
    same_gradients(columns(read_request(y, z, 0, True)), one_hot_jacobian(y, z, create_graph=True), net)


def test_any_direction_may_be_pushed() -> None:
    net, z = made("mlp")
    y = net(z)
    directions = torch.randn(4, 6, dtype=torch.float64)
    torch.testing.assert_close(
        PUSHED.run(read_request(y, z, 0, False), directions, 3), one_hot_jacobian(y, z) @ directions.T
    )


@pytest.mark.parametrize("name", PUSHABLE)
def test_a_second_order_jet_is_the_sum_of_curvatures_plus_the_pushed_second_part(name: str) -> None:
    net, z = made(name)
    y = net(z)
    first = torch.randn(5, 3, 6, dtype=torch.float64)
    second = torch.randn(3, 6, dtype=torch.float64)
    jet = push_jets(read_request(y, z, 0, False), first, second, order=2)
    bent = torch.einsum("pbi,bkij,pbj->bk", first, one_hot_hessian(y, z), first)
    torch.testing.assert_close(jet.second, bent + torch.einsum("bkd,bd->bk", one_hot_jacobian(y, z), second))


def test_the_output_itself_and_a_view_of_it_are_targets() -> None:
    z = torch.randn(3, 2, requires_grad=True) * 1
    assert torch.equal(columns(read_request(z, z, 0, False)), torch.eye(2).expand(3, 2, 2))
    leaf = torch.randn(3, 2, requires_grad=True)
    assert torch.equal(columns(read_request(leaf, leaf, 0, False)), torch.eye(2).expand(3, 2, 2))


def test_the_batch_axis_of_the_target_may_be_any() -> None:
    z = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    y = (z * z.tanh()).sum(0)
    request = read_request(y, z, (0, 1), False)
    first = z.movedim(1, 0).detach().requires_grad_()
    truth = one_hot_jacobian((first * first.tanh()).sum(1), first)
    torch.testing.assert_close(columns(request), truth.reshape(3, 4, 8))


def test_an_unknown_node_is_named() -> None:
    net, z = made("own function")
    assert "CubeBackward" in str(PUSHED.unfit(read_request(net(z), z, 0, False)))


@pytest.mark.parametrize("reduced", [lambda x: x.sum(0), lambda x: x.softmax(0), lambda x: x.amax(0)])
def test_an_axis_of_a_number_is_not_taken_for_the_directions(reduced: Callable[[Tensor], Tensor]) -> None:
    x = torch.tensor(2.0, requires_grad=True)
    way = find_way(reduced(x), read_target(x))
    assert "without axes" in str(why_not_pushed(way, 1))


def test_an_output_without_a_jet_is_named() -> None:
    x = torch.randn(2, 4, 3, requires_grad=True)
    _, mean, _ = torch.native_group_norm(x, None, None, 2, 4, 3, 2, 1e-5)
    with pytest.raises(DerivativeError, match="output 1 of NativeGroupNormBackward0"):
        push_jets(read_request(mean, x, 0, False), torch.ones(1, 2, 4, 3))
    for y in (mean, mean * 2):
        assert "mean or deviation" in str(PUSHED.unfit(read_request(y, x, 0, False)))


def test_a_freed_graph_and_a_changed_one_are_told() -> None:
    net, z = made("mlp")
    y = net(z)
    request = read_request(y, z, 0, False)
    with torch.no_grad():
        net[2].weight.mul_(2)
    with pytest.raises(DerivativeError, match="in place"):
        columns(request)
    y = net(z)
    request = read_request(y, z, 0, False)
    torch.autograd.grad(y.sum(), net[0].weight)
    with pytest.raises(DerivativeError, match="freed"):
        columns(request)


def test_autocast_outside_does_not_reach_in() -> None:
    net, z = made("mlp")
    net.float()
    z = z.detach().float().requires_grad_()
    y = net(z)
    request = read_request(y, z, 0, False)
    expected = columns(request)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(columns(request), expected)


def test_a_graph_made_under_autocast_keeps_the_dtype_of_each_node() -> None:
    net, z = made("mlp")
    net.float()
    z = z.detach().float().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = net(z)
    jet = push_jets(read_request(y, z, 0, False), torch.randn(2, 3, 6))
    assert jet.first.dtype == y.dtype == torch.bfloat16


def test_the_first_linear_layer_is_not_multiplied_for_each_sample() -> None:
    net, z = made("mlp", 64)
    request = read_request(net(z), z, 0, False)
    seeds = same_for_all(request, every_direction(request, "columns"))
    assert seeds.shape == (6, 64, 6) and seeds.stride(1) == 0
    step = request.way.steps[-1]
    rule = rule_of(step.name)
    assert rule is not None and rule.push is not None
    assert rule.push(step, [None, Jet(seeds), None], 1)[0].first.stride(1) == 0


def test_jets_are_let_go_when_their_last_reader_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    net = nn.Sequential(*[nn.Tanh() for _ in range(9)])
    z = torch.randn(3, 4, requires_grad=True)
    request = read_request(net(z), z, 0, False)
    held = []
    push = pushed._push

    def watched(step: object, jets: dict[object, object], *rest: object) -> None:
        push(step, jets, *rest)  # type: ignore[arg-type]
        held.append(len(jets))

    monkeypatch.setattr(pushed, "_push", watched)
    columns(request)
    assert set(held) == {1}


def test_a_chunk_fits_the_cache_and_counts_no_more_than_there_are() -> None:
    net, z = made("mlp")
    assert chunk_for_cache(read_request(net(z), z, 0, False)) == 6
    wide = torch.randn(512, 64, requires_grad=True)
    chunk = chunk_for_cache(read_request(wide.tanh(), wide, 0, False))
    assert chunk == machine_of(wide.device, wide.dtype).cache // wide.nbytes == 8


def test_order_two_is_asked_for_by_its_own() -> None:
    net, z = made("mlp")
    way = read_request(net(z), z, 0, False).way
    assert why_not_pushed(way, 1) is None and why_not_pushed(way, 2) is None


def test_a_planted_wrong_slope_is_rejected_by_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    net, z = made("mlp")
    y, right = net(z), rule_of("TanhBackward0")
    assert right is not None
    wrong = replace(right, push=lambda step, jets, order: {0: next(jet for jet in jets if jet is not None)})
    monkeypatch.setattr(pushed, "rule_of", lambda name: wrong if name == "TanhBackward0" else rule_of(name))
    assert not torch.allclose(columns(read_request(y, z, 0, False)), one_hot_jacobian(y, z))
