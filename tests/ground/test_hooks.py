"""Hooks of ours that can't touch a gradient count off; anybody else's, and ours on a graph, count."""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

import gradwright as gw
from gradwright.derivatives.graph.engine import hooks_ever
from gradwright.ground import hooks
from gradwright.ground.hooks import OnTheGraph, beside_the_graph, hooks_of_others
from gradwright.training import GradientAccumulator


class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x * x * cotangent


def _nothing(*_: Any) -> None:
    pass


def _on_a_tensor() -> Any:
    return torch.ones(2, requires_grad=True).register_hook(_nothing)


def test_one_on_the_graph_counts_until_it_is_taken_off_and_counts_off_once() -> None:
    before = hooks_of_others()
    handle = OnTheGraph(_on_a_tensor())
    assert hooks_of_others() == before + 1
    handle.remove()
    handle.remove()
    assert hooks_of_others() == before


def test_one_on_the_graph_is_really_taken_off() -> None:
    x = torch.ones(2, requires_grad=True)
    handle = OnTheGraph(x.register_hook(lambda gradient: 2 * gradient))
    (x * x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [4.0, 4.0]
    handle.remove()
    x.grad = None
    (x * x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2.0, 2.0]


def test_one_beside_the_graph_counts_off_from_the_beginning() -> None:
    before = hooks_of_others()
    handle = beside_the_graph(register_optimizer_step_post_hook(_nothing))
    assert hooks_of_others() == before
    handle.remove()
    assert hooks_of_others() == before


def test_a_handle_that_torch_did_not_count_is_not_counted_off() -> None:
    class Handle:
        def remove(self) -> None: ...

    before = hooks_of_others()
    beside_the_graph(Handle())
    OnTheGraph(Handle()).remove()
    assert hooks_of_others() == before


def test_without_the_lock_of_the_interpreter_nothing_is_subtracted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "_counted_off", 10**9)
    assert hooks_of_others() < 0
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    assert hooks_of_others() > 0


def test_threads_count_off_no_hook_of_others() -> None:
    each, threads = 200, 8
    before = hooks_of_others()
    ours = [OnTheGraph(_on_a_tensor()) for _ in range(each)]

    def work() -> None:
        for handle in ours:
            _on_a_tensor()
            beside_the_graph(register_optimizer_step_post_hook(_nothing)).remove()
            handle.remove()  # every thread takes off every one of them

    running = [threading.Thread(target=work) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert before + each * threads <= hooks_of_others() < before + each * threads + each


def test_check_taps_and_accumulators_leave_no_hook_behind_that_counts() -> None:
    before = hooks_ever()
    assert gw.check(Cubed.apply, torch.randn(3, dtype=torch.float64), level="standard").ok
    leaf = torch.ones(3, requires_grad=True)
    with gw.taps():
        gw.tap("p", leaf).sum().backward()
        assert hooks_ever() == before + 1
    with gw.explain_nonfinite():
        torch.ones(3, requires_grad=True).exp().sum().backward()
    layer = nn.Linear(2, 2)
    GradientAccumulator(layer, torch.optim.SGD(layer.parameters(), 0.1), accumulation_steps=2, progress=False)
    assert hooks_ever() == before


@pytest.mark.parametrize("first", [True, False], ids=["hook, then check", "check, then hook"])
def test_a_users_hook_is_heard_beside_a_check(first: bool) -> None:
    x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    before = hooks_ever()
    h = x * 1

    def asked() -> None:
        assert gw.check(Cubed.apply, torch.randn(3, dtype=torch.float64), level="quick").ok

    if not first:
        asked()
    h.register_hook(lambda cotangent: 2 * cotangent)
    if first:
        asked()
    assert hooks_ever() == before + 1
    found = gw.batch_jacobian(h * h, wrt=x)
    torch.testing.assert_close(found, torch.diag_embed(4 * x.detach()))


def test_under_the_doctor_a_script_without_hooks_has_none(run: Callable[..., Any], tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        """
import torch
from torch.utils.hooks import RemovableHandle
from gradwright.derivatives.graph.engine import hooks_ever
net = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(12):
    optimizer.zero_grad()
    net(torch.randn(8, 3)).square().mean().backward()
    optimizer.step()
print(RemovableHandle.next_id, hooks_ever())
"""
    )
    registered, others = map(int, run(script).stdout.split())
    assert others == 0 < registered
