"""How much is done, counted and not timed: engine calls, products, what is never made."""

import pytest
import torch
from tests.derivatives.per_sample.judge import drawn, engine_calls, per_sample_loss, weight
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from gradwright.derivatives.per_sample import alone, per_sample_gradients


class Counted(TorchDispatchMode):
    """Operations by name."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 2))


def test_a_known_way_takes_one_backward_that_makes_no_weight_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    net = mlp()
    losses = per_sample_loss(net(torch.randn(8, 5)))
    with engine_calls(monkeypatch) as calls, Counted() as counted:
        per_sample_gradients(losses, net)
    assert calls == [3]  # one call, to the three layers
    assert counted.names.count("mm") == 2  # the cotangents of two hidden layers; a plain backward has five products
    assert counted.names.count("tanh_backward") == 2
    assert counted.names.count("clone") == counted.names.count("copy_") == 0


def test_the_number_of_operations_does_not_grow_with_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    done = []
    net = nn.Sequential(nn.Conv1d(2, 4, 3), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(16, 3))
    for count in (2, 64):
        losses = per_sample_loss(net(torch.randn(count, 2, 6)))
        with engine_calls(monkeypatch), Counted() as counted:
            per_sample_gradients(losses, net)
        done.append(len(counted.names))
    assert done[0] == done[1]


def test_an_unknown_step_costs_one_backward_more(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.derivatives.per_sample.test_meeting_samples import Sine

    w = weight(torch.Generator().manual_seed(1), 3, 5)
    losses = per_sample_loss(Sine.apply(torch.ones(64, 5, dtype=torch.float64) @ w.T))
    with engine_calls(monkeypatch) as calls:
        per_sample_gradients(losses, w)
    assert len(calls) == 2


def test_what_lies_behind_is_gone_through_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(1)
    w, x = weight(generator, 3, 5), drawn(generator, 9, 5)
    losses = per_sample_loss((x @ w.sin().T).tanh())
    with engine_calls(monkeypatch) as calls:
        monkeypatch.setattr(alone, "vjp", counting(calls := []))
        per_sample_gradients(losses, w, chunk_size=4)
    assert len(calls) == 3  # the first sample alone, then four and four


def counting(calls: list[int]):  # type: ignore[no-untyped-def]
    run = alone.vjp  # type: ignore[attr-defined]

    def counted(*args):  # type: ignore[no-untyped-def]
        calls.append(1)
        return run(*args)

    return counted
