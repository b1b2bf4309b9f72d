"""Hooks are heard while the engine runs, whoever wrote them and however they are called."""

from __future__ import annotations

import functools
import operator
import sys
import threading
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from gradwright.derivatives.graph.engine import Heard, hooks_ever, hooks_heard, pull, run_backward
from gradwright.derivatives.graph.target import Target, read_target


def _hooked(hook: Callable[[Tensor], Tensor | None] | None) -> tuple[Tensor, Target]:
    z = torch.ones(4, 3, requires_grad=True)
    torch.ones(1, requires_grad=True).register_hook(lambda cotangent: None)  # so that somebody listens at all
    h = z.tanh()
    if hook is not None:
        h.register_hook(hook)
    return h * 2, read_target(z)


def _listen(y: Tensor, target: Target) -> Heard:
    with hooks_heard() as heard:
        torch.stack(
            [pull(y, target, torch.ones_like(y))] * 2
        ).sum()  # torch's functions outside of the engine are not meant
    return heard


def _python(cotangent: Tensor) -> Tensor:
    return cotangent


@pytest.mark.parametrize(
    "hook",
    [_python, operator.neg, torch.neg, torch.Tensor.neg, functools.partial(torch.clamp, min=-1.0)],
    ids=["python", "operator", "torch", "method", "partial"],
)
def test_a_hook_is_heard_in_python_and_in_c(hook: Callable[[Tensor], Tensor]) -> None:
    heard = _listen(*_hooked(hook))
    assert heard.python
    assert not heard.unknown


def test_silence_is_heard_as_silence() -> None:
    heard = _listen(*_hooked(None))
    assert not heard.python
    assert not heard.unknown


def test_hooks_are_heard_under_vmap() -> None:
    for hook, expected in ((torch.neg, True), (_python, True), (None, False)):
        y, target = _hooked(hook)

        def carry(cotangent: Tensor, y: Tensor = y, target: Target = target) -> Tensor:
            pulled = run_backward(y, target.edge, cotangent.expand(y.shape), False)
            assert pulled is not None
            return pulled

        with hooks_heard() as heard:
            torch.func.vmap(carry)(torch.ones(2, 1, 1))
        assert heard.python is expected


def test_a_listener_inside_another_hears_and_lets_the_other_hear() -> None:
    loud, target = _hooked(_python)
    silent, other = _hooked(None)
    with hooks_heard() as outer:
        with hooks_heard() as first:
            pull(silent, other, torch.ones_like(silent))
        assert not outer.python
        with hooks_heard() as second:
            pull(loud, target, torch.ones_like(loud))
        assert sys.getprofile() is not None
    assert (outer.python, first.python, second.python) == (True, False, True)
    assert sys.getprofile() is None


def test_autograd_called_directly_is_not_listened_to_and_that_is_told() -> None:
    y, target = _hooked(torch.neg)
    with hooks_heard() as heard:
        torch.autograd.grad(y.sum(), target.edge, retain_graph=True)
    assert heard.unknown


def test_another_thread_hears_its_own_engine() -> None:
    y, target = _hooked(_python)
    silent, other = _hooked(None)
    found: list[bool] = []

    def work() -> None:
        found.append(_listen(y, target).python)

    with hooks_heard() as heard:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        pull(silent, other, torch.ones_like(silent))
    assert found == [True]
    assert not heard.python


def test_every_registration_counts() -> None:
    before = hooks_ever()
    handle = torch.ones(1, requires_grad=True).register_hook(_python)
    handle.remove()
    assert hooks_ever() == before + 1
