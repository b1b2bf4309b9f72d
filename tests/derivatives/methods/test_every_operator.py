"""Every operator of torch's own tables: pushed forward rightly to second order, by nested autograd, or not pushed."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import pytest
import torch
from torch import Tensor

from gradwright.derivatives.graph.request import Request
from gradwright.derivatives.graph.target import read_target
from gradwright.derivatives.graph.way import find_way
from gradwright.derivatives.methods.pushed import push_jets, why_not_pushed

#: Its sample divides by a negative number, which arrives as one above 2^63; no layer does that.
LEFT_OUT = {"nn.functional.avg_pool2d"}


def tensors(tree: Any) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, list | tuple):
        for item in tree:
            yield from tensors(item)


def nested(y: Tensor, x: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """The jet that ``push_jets`` should make, entry by entry of y."""
    slopes, bends = [], []
    for value in y.reshape(-1):
        (gradient,) = torch.autograd.grad(value, x, create_graph=True, allow_unused=True, materialize_grads=True)
        slopes.append((first * gradient).flatten(1).sum(1).detach())
        bend = (gradient * second).sum().detach()
        if gradient.requires_grad:
            for direction in first:
                (curved,) = torch.autograd.grad(
                    (gradient * direction).sum(), x, retain_graph=True, allow_unused=True, materialize_grads=True
                )
                bend = bend + (curved * direction).sum()
        bends.append(bend)
    return torch.stack(slopes, 1).reshape(len(first), *y.shape), torch.stack(bends).reshape(y.shape)


def off(found: Tensor, truth: Tensor) -> float:
    """Largest difference where the truth is a number; masked entries and norms at 0 have none."""
    gap = (found - truth).abs() / (1 + truth.abs())
    known = truth.isfinite()
    return float(gap[known].nan_to_num(torch.inf).max()) if known.any() else 0.0


def small_call(op: Any) -> tuple[Tensor, Tensor] | None:
    """An output and an input."""
    for sample in islice(op.sample_inputs("cpu", torch.float64, requires_grad=True), 6):
        given = [x for x in tensors([sample.input, *sample.args]) if x.requires_grad and x.is_floating_point()]
        if not given or not all(0 < x.numel() <= 60 and x.ndim for x in given):
            continue
        made = [
            y
            for y in tensors(op(sample.input, *sample.args, **sample.kwargs))
            if y.requires_grad and y.dtype == torch.float64 and 0 < y.numel() <= 60
        ]
        if made:
            return made[0], given[0]
    return None


@contextmanager
def uncollected() -> Iterator[None]:
    """Importing the tables makes a million objects: in a process with many others, each collection walks them all."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def test_what_is_pushed_is_what_nested_autograd_says(monkeypatch: pytest.MonkeyPatch) -> None:
    # the tables seed each sample, and each seeding formats the stack, for a CUDA that is not there: half the time
    monkeypatch.setattr("traceback.format_stack", lambda *rest: [])
    monkeypatch.setattr("inspect.stack", lambda *rest: [])  # nor does it matter which test asks
    with warnings.catch_warnings(), torch.random.fork_rng(), uncollected():
        warnings.simplefilter("ignore")
        operators = pytest.importorskip("torch.testing._internal.common_methods_invocations").op_db
        pushed, wrong = set(), {}
        for op in operators:
            if not op.supports_gradgrad or not op.supports_dtype(torch.float64, "cpu"):
                continue
            called = None if op.name in LEFT_OUT else small_call(op)
            if called is None:
                continue
            y, x = called
            target = read_target(x)
            way = find_way(y, target)
            if not way.found or why_not_pushed(way, 2):
                continue
            first = torch.randn(2, *x.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(1))
            second = first.flip(0)[0] * 0.5
            jet = push_jets(Request(y, target, None, way, False), first, second, order=2)
            slopes, bends = nested(y, x, first, second)
            found = torch.zeros_like(bends) if jet.second is None else jet.second
            worst = max(off(jet.first, slopes), off(found, bends))
            pushed.add(op.name)
            if not worst < 1e-5:
                wrong[op.name] = (worst, [step.name for step in way.steps])
    assert not wrong
    assert len(pushed) >= 200
