"""Chance, autocast, hooks, threads: a reversible network is among them what a plain one is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from tests.functions.flow.reversible.networks import assert_same, gradients, halves, loss, mlp, network, unrolled
from torch import Tensor, nn


def test_the_backward_leaves_the_generator_where_it_was():
    result = loss(*network(lambda: mlp(nn.Dropout(0.4)))(*halves()))
    torch.rand(3)
    before = torch.get_rng_state()
    result.backward()
    assert torch.equal(before, torch.get_rng_state())


def test_a_backward_hook_that_draws_moves_the_generator_as_ever():
    module = network(lambda: mlp(nn.Dropout(0.4)))
    module.blocks[0].f[0].register_full_backward_hook(lambda *_: torch.rand(1) and None)
    result = loss(*module(*halves()))
    before = torch.get_rng_state()
    result.backward()
    assert not torch.equal(before, torch.get_rng_state())


def test_autocast_of_the_forward_is_that_of_the_backward():
    module, x = network().float(), [x.detach().float().requires_grad_() for x in halves()]

    def under(run: Callable[..., Any]) -> Callable[..., Any]:
        def call(*x: Tensor) -> Any:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return run(*x)

        return call

    expected = gradients(under(lambda *x: unrolled(module, *x)), module, x)
    assert_same(gradients(under(module), module, x), expected, 1e-2)
    plain = gradients(module, module, x)
    assert max(float((a - b).abs().max()) for a, b in zip(plain, expected, strict=True)) > 1e-3  # it does matter


def test_autocast_does_not_keep_a_cast_weight_that_has_no_graph():
    module, x = network().float(), [x.detach().float() for x in halves()]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        module(*x)
        module.blocks[0].f(x[0]).sum().backward()
    assert module.blocks[0].f[0].weight.grad is not None


def test_autocast_around_the_backward_alone_does_what_it_does_to_plain_autograd():
    module, x = network().float(), [x.detach().float().requires_grad_() for x in halves()]
    results = [loss(*run(*x)) for run in (module, lambda *x: unrolled(module, *x))]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, expected = (torch.autograd.grad(result, x) for result in results)
    assert_same(list(found), list(expected), 1e-5)


def test_hooks_run_as_often_as_they_should():
    module = network(depth=2)
    calls = dict.fromkeys(("forward of f", "backward of f", "parameter", "accumulated", "whole"), 0)

    def count(name: str) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            calls[name] += 1

        return hook

    f = module.blocks[0].f
    f.register_forward_hook(count("forward of f"))
    f[0].register_full_backward_hook(count("backward of f"))
    f[0].weight.register_hook(count("parameter"))
    f[0].weight.register_post_accumulate_grad_hook(count("accumulated"))
    module.register_full_backward_hook(count("whole"))
    loss(*module(*halves())).backward()
    assert calls == {"forward of f": 2, "backward of f": 1, "parameter": 1, "accumulated": 1, "whole": 1}


def test_a_parameter_hook_that_halves_the_gradient_halves_it_once():
    module, x = network(), halves()
    expected = gradients(module, module, x)[2]
    next(module.parameters()).register_hook(lambda gradient: gradient / 2)
    torch.testing.assert_close(gradients(module, module, x)[2], expected / 2)


def test_data_parallel_training_sees_every_gradient(tmp_path):
    module, x = network(), halves()
    expected = gradients(module, module, x)
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        parallel = nn.parallel.DistributedDataParallel(module)
        assert_same(gradients(parallel, module, x), expected)
        buckets: list[int] = []

        def communicated(_, bucket):  # torch reads the annotations, as types
            buckets.append(bucket.buffer().numel())
            done: torch.futures.Future[Tensor] = torch.futures.Future()
            done.set_result(bucket.buffer())
            return done

        parallel.register_comm_hook(None, communicated)
        assert_same(gradients(parallel, module, x), expected)
        assert sum(buckets) == sum(parameter.numel() for parameter in module.parameters())
    finally:
        torch.distributed.destroy_process_group()


def test_two_threads_on_one_network():
    module, x = network(lambda: mlp(nn.Dropout(0.0)), depth=8), halves(64, grad=False)
    expected = torch.autograd.grad(loss(*module(*x)), list(module.parameters()))
    found: list[Any] = []

    def work() -> None:
        for _ in range(5):
            found.append(torch.autograd.grad(loss(*module(*x)), list(module.parameters())))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 10
    for gradients_found in found:
        assert_same(list(gradients_found), list(expected))
