"""A tap changes nothing at all, on or off: not a bit of the values, the gradient, the history, the random state."""

import gc
import io
import warnings
import weakref
from collections import namedtuple

import pytest
import torch
from torch import nn

from gradwright.checking.check import check
from gradwright.functions.tap import Tap, tap, taps
from gradwright.functions.tap.hooks import NodeHook


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return tap("squared", x**2)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return tap("grad of x", 2 * x * grad_output)


@pytest.mark.parametrize("on", [False, True], ids=["off", "on"])
def test_what_comes_back_is_the_very_object(on):
    Point = namedtuple("Point", "x y")
    values = [torch.ones(3, requires_grad=True) * 2, nn.Parameter(torch.ones(2)), torch.ones(0), None, 7,
              {"a": [torch.ones(1)]}, Point(torch.ones(1), None), torch.eye(2).to_sparse()]  # fmt: skip
    with taps() if on else warnings.catch_warnings():
        assert all(tap("any", value) is value for value in values)


def run(seed, *, tapped):
    """One step of a model with everything that may be disturbed: views, branches, in-place, dropout."""
    torch.manual_seed(seed)
    show = tap if tapped else lambda name, value: value
    x = torch.randn(4, 6, requires_grad=True)
    weight = nn.Parameter(torch.randn(6, 6))
    h = show("h", (x @ show("weight", weight)).t())
    branches = show("a", h.sin()) + show("b", h.exp()) * h + show("c", h[1:3]).sum() + h.tanh()
    branches = show("relu", branches.relu_())
    out = torch.nn.functional.dropout(show("dropped", branches), 0.5)
    loss = show("loss", (out * show("leaf", x).t()).sum())
    (first,) = torch.autograd.grad(loss, x, create_graph=True)
    show("first", first).square().sum().backward()
    return (
        [loss.detach(), first.detach(), x.grad, weight.grad, torch.rand(3), branches.detach()],
        [
            h.stride(),
            h.data_ptr() - h._base.data_ptr(),
            x._version,
            branches._version,
            x.is_leaf,
            branches.grad_fn.name(),
        ],
    )


@pytest.mark.parametrize("seed", range(3))
def test_values_gradients_strides_versions_and_random_state_are_the_same_to_the_last_bit(seed):
    plain, facts = run(seed, tapped=False)
    with taps() as seen:
        tapped, tapped_facts = run(seed, tapped=True)
    assert all(torch.equal(one, other) for one, other in zip(plain, tapped, strict=True))
    assert facts == tapped_facts
    assert {row.name for row in seen.rows} == {"h", "weight", "a", "b", "c", "relu", "dropped", "loss", "leaf", "first"}


def test_no_tensor_and_no_graph_is_kept():
    with taps() as seen:
        x = torch.ones(3, requires_grad=True)
        y = tap("y", x * 2)
        tap("x", x)
        y.grad_fn.metadata["token"] = token = type("Token", (), {})()  # lives as long as the node
        alive = [weakref.ref(y), weakref.ref(x), weakref.ref(token)]
        y.sum().backward()
        del x, y, token
        gc.collect()
        assert [ref() for ref in alive] == [None, None, None]
    assert len(seen.passages) == 4


def test_a_tapped_parameter_can_be_saved_without_a_warning():
    weight = nn.Parameter(torch.ones(2))
    with taps():
        tap("weight", weight)
        torch.save(weight, io.BytesIO())


@pytest.mark.parametrize("on", [False, True], ids=["off", "on"])
def test_a_function_with_taps_passes_the_check(on):
    x = torch.randn(3, 2, dtype=torch.float64)
    with taps() if on else warnings.catch_warnings():
        report = check(Square, x, level="standard")
        assert report.ok, str(report)
        module = nn.Sequential(nn.Linear(2, 3), Tap("hidden"), nn.Tanh(), Tap("out"))
        assert (report := check(module, x.float(), level="standard")).ok, str(report)


def test_the_check_would_see_a_tap_that_changes_the_gradient(monkeypatch):
    def spoilt(self, gradient):
        return gradient * 1.01

    monkeypatch.setattr(NodeHook, "__call__", spoilt)
    with taps():
        report = check(lambda x: tap("hidden", x.sin()).exp(), torch.randn(3, dtype=torch.float64), level="standard")
    assert not report.ok
