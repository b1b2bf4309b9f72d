"""Hooks are not in the graph, and the rules read saved tensors past them: what a hook does is never lost."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.derivatives.per_sample.judge import TIGHT, drawn, largest_error, loop_truth, per_sample_loss, weight
from torch import Tensor, nn

from gradwright.derivatives.per_sample import gradients, per_sample_gradients
from gradwright.derivatives.per_sample.trust import Seen
from gradwright.errors import CoupledBatch


@pytest.fixture
def made() -> Iterator[tuple[Tensor, list[Tensor], Tensor]]:
    generator = torch.Generator().manual_seed(4)
    w, v, b = weight(generator, 3, 5), weight(generator, 3, 2), weight(generator, 2)
    hidden = drawn(generator, 6, 5) @ w.T
    yield per_sample_loss(torch.addmm(b, hidden.tanh(), v)), [w, v, b], hidden


def same(losses: Tensor, params: list[Tensor]) -> bool:
    return largest_error(per_sample_gradients(losses, params), loop_truth(losses, params)) < TIGHT


def test_a_hook_on_a_parameter_is_applied_to_each_sample(made: tuple[Tensor, list[Tensor], Tensor]) -> None:
    losses, params, _ = made
    params[0].register_hook(lambda cotangent: 2 * cotangent)
    assert same(losses, params)
    params[1].register_hook(lambda cotangent: cotangent / cotangent.norm())
    assert same(losses, params)


def test_a_hook_of_c_on_a_parameter_is_heard(made: tuple[Tensor, list[Tensor], Tensor]) -> None:
    losses, params, _ = made
    params[1].register_hook(torch.neg)
    assert same(losses, params)


def test_a_hook_that_only_looks_changes_nothing(made: tuple[Tensor, list[Tensor], Tensor]) -> None:
    losses, params, hidden = made
    seen: list[torch.Size] = []
    params[0].register_hook(lambda cotangent: seen.append(cotangent.shape))
    hidden.register_hook(lambda cotangent: seen.append(cotangent.shape))
    assert same(losses, params)


def test_a_hook_on_the_way_is_part_of_it(made: tuple[Tensor, list[Tensor], Tensor]) -> None:
    losses, params, hidden = made
    hidden.register_hook(lambda cotangent: 3 * cotangent)
    assert same(losses, params)


def test_a_hook_that_mixes_samples_is_an_error(made: tuple[Tensor, list[Tensor], Tensor]) -> None:
    losses, params, hidden = made
    hidden.register_hook(lambda cotangent: cotangent - cotangent.mean(0))
    with pytest.raises(CoupledBatch, match="hook"):
        per_sample_gradients(losses, params)
    exact = per_sample_gradients(losses, params, batch="coupled")
    assert largest_error(exact, loop_truth(losses, params)) < TIGHT


def test_a_hook_of_the_node_behind_the_boundary_is_heard(made: tuple[Tensor, list[Tensor], Tensor]) -> None:
    losses, params, hidden = made
    assert hidden.grad_fn is not None
    transposed = hidden.grad_fn.next_functions[1][0]
    assert transposed.name() == "PermuteBackward0"
    transposed.register_prehook(lambda cotangents: (cotangents[0].clamp(-0.01, 0.01),))
    assert same(losses, params)


def test_a_hook_of_the_boundary_itself_is_heard(made: tuple[Tensor, list[Tensor], Tensor]) -> None:
    losses, params, hidden = made
    assert hidden.grad_fn is not None
    hidden.grad_fn.register_hook(lambda ins, outs: tuple(None if one is None else one.abs() for one in ins))
    assert same(losses, params)


def test_a_hook_of_a_boundary_in_the_middle_is_heard(made: tuple[Tensor, list[Tensor], Tensor]) -> None:
    losses, params, _ = made
    last = step_named(losses, "AddmmBackward0")
    last.register_hook(lambda ins, outs: tuple(None if one is None else 3 * one for one in ins))
    assert same(losses, params)


def test_what_torch_does_not_call_has_no_say(made: tuple[Tensor, list[Tensor], Tensor]) -> None:
    """``torch.autograd.grad`` takes what arrives at a parameter's node, and doesn't run that node's hooks."""
    losses, params, _ = made
    for edge in step_named(losses, "AddmmBackward0").next_functions[::2]:
        edge[0].register_prehook(lambda cotangents: (cotangents[0].abs(),))
    assert same(losses, params)


@pytest.mark.parametrize("name", [name for name in globals() if name.startswith("test_a_hook_of")])
def test_who_does_not_listen_is_found_out(
    monkeypatch: pytest.MonkeyPatch, made: tuple[Tensor, list[Tensor], Tensor], name: str
) -> None:
    """The tests above reject a function that reads saved tensors past the hooks."""
    monkeypatch.setattr(gradients, "_speaks_behind", lambda *given: False)
    monkeypatch.setattr(gradients, "look", lambda *given: Seen(True, 0.0, ""))
    with pytest.raises(AssertionError):
        globals()[name](made)


def step_named(losses: Tensor, name: str) -> Any:
    """The first node of this name behind the losses."""
    node = losses.grad_fn
    while node is not None and name not in node.name():
        node = node.next_functions[0][0]
    assert node is not None
    return node


def test_hooks_are_heard_where_independence_is_assumed(made: tuple[Tensor, list[Tensor], Tensor]) -> None:
    losses, params, _ = made
    params[0].register_hook(lambda cotangent: cotangent.sign())
    found = per_sample_gradients(losses, params, batch="assume_independent")
    assert largest_error(found, loop_truth(losses, params)) < TIGHT


def test_full_backward_hooks_of_modules_are_looked_through() -> None:
    torch.manual_seed(2)
    net = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 2)).double()
    seen: list[str] = []
    net[0].register_full_backward_hook(lambda module, ins, outs: seen.append("hook"))
    net[2].register_full_backward_pre_hook(lambda module, outs: (2 * outs[0],))
    losses = per_sample_loss(net(torch.randn(6, 5, dtype=torch.float64, requires_grad=True)))
    assert same(losses, list(net.parameters()))


def test_nothing_of_the_callers_is_changed(made: tuple[Tensor, list[Tensor], Tensor]) -> None:
    losses, params, _ = made
    state = torch.random.get_rng_state()
    per_sample_gradients(losses, params, create_graph=True)
    per_sample_gradients(losses, params, batch="coupled")
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(parameter.grad is None for parameter in params)
    assert same(losses, params)  # the graph is alive
