"""A reversible network keeps no activations."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.functions.flow.reversible.networks import WIDTH, halves, mlp, network, unrolled
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from gradwright.functions.flow.reversible import block


class Alive(TorchDispatchMode):
    """``bytes``: of the storages made inside that are alive; views of earlier ones don't count."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {storage._cdata for storage in storages((args, kwargs))}
        result = func(*args, **(kwargs or {}))
        for storage in storages(result):
            if storage._cdata not in self.sizes and storage._cdata not in given:
                self.sizes[storage._cdata] = storage.nbytes()
                weakref.finalize(storage, self.sizes.pop, storage._cdata, None)
        return result

    @property
    def bytes(self) -> int:
        return sum(self.sizes.values())


def storages(values: Any) -> list[torch.UntypedStorage]:
    return [value.untyped_storage() for value in tree_leaves(values) if isinstance(value, Tensor)]


def kept(run: Callable[..., Any], x: list[Tensor]) -> int:
    with Alive() as alive:
        outputs = run(*x)
        return alive.bytes - sum(y.untyped_storage().nbytes() for y in outputs)


@pytest.mark.parametrize("more", [(), (nn.Dropout(0.4),), (nn.BatchNorm1d(WIDTH),)], ids=["plain", "drop", "norm"])
def test_memory_does_not_grow_with_depth(more):
    x = halves(4096)
    shallow, deep = network(lambda: mlp(*more), depth=2), network(lambda: mlp(*more), depth=20)
    by_step = (kept(deep, x) - kept(shallow, x)) / 36
    assert by_step <= 64 * 8 + 5056 * bool(more) + 1024
    as_plain = (kept(lambda *x: unrolled(deep, *x), x) - kept(lambda *x: unrolled(shallow, *x), x)) / 36
    assert as_plain > 4096 * WIDTH * 8


@pytest.mark.parametrize("how", [torch.no_grad, torch.inference_mode], ids=["no_grad", "inference_mode"])
def test_without_gradients_f_and_g_are_called_and_no_more(how, monkeypatch):
    module, x = network(lambda: mlp(nn.BatchNorm1d(WIDTH))), halves(grad=False)
    monkeypatch.setattr(block, "_recorded", None)
    twin = copy.deepcopy(module)
    with how():
        found, expected = module(*x), unrolled(twin, *x)
    assert all(torch.equal(one, two) for one, two in zip(found, expected, strict=True))


def test_nothing_that_requires_a_gradient_is_plain_torch():
    assert network().requires_grad_(False)(*halves(grad=False))[0].grad_fn is None
