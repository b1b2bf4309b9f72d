"""Exactly what the backward's signature names is saved."""

import gc
import weakref

import pytest
import torch

from gradwright.functions.custom_gradient import custom_gradient, residuals


def _forward(x, w, n=2):
    inner = x * w
    mask = inner > 0
    out = inner * mask * n
    return out, residuals(mask=mask, inner=inner)


BACKWARDS = {
    "nothing": lambda g: (g, g),
    "x": lambda g, x: (g, g),
    "w, x": lambda g, w, x: (g, g),
    "output": lambda g, output: (g, g),
    "mask": lambda g, mask: (g, g),
    "inner": lambda g, inner: (g, g),
    "n": lambda g, n: (g, g),
    "x, output, mask, inner, n": lambda g, x, output, mask, inner, n: (g, g),
}


def _saved_by(f, *args, **kwargs):
    """The data pointers and shapes of what autograd is handed to keep, and the output."""
    seen = []

    def pack(tensor):
        seen.append((tensor.data_ptr(), tuple(tensor.shape), tensor.dtype))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = f(*args, **kwargs)
    return seen, output


@pytest.mark.parametrize("how", ["plainly", "by keyword"])
@pytest.mark.parametrize("names", BACKWARDS)
def test_the_named_tensors_are_saved_and_no_other(names, how):
    f = custom_gradient(_forward, BACKWARDS[names])
    x, w = torch.randn(5, requires_grad=True), torch.randn(5, requires_grad=True)
    seen, output = _saved_by(f, x, w) if how == "plainly" else _saved_by(f, x=x, w=w)
    named = [name.strip() for name in names.split(",") if name.strip() not in ("nothing", "n")]
    assert len(seen) == len(named)
    known = {"x": x.data_ptr(), "w": w.data_ptr(), "output": output.data_ptr()}
    for name, (pointer, _, dtype) in zip(named, seen, strict=True):
        assert pointer == known.get(name, pointer)
        assert (dtype is torch.bool) == (name == "mask")


def test_a_planted_hoarder_is_counted():
    class Hoarder(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x * w

        @staticmethod
        def backward(ctx, g):
            return g, g

    x = torch.randn(5, requires_grad=True)
    assert len(_saved_by(Hoarder.apply, x, x)[0]) == 2


@pytest.mark.parametrize("how", ["plainly", "by keyword"])
def test_what_is_not_named_dies_with_its_owner(how):
    f = custom_gradient(_forward, BACKWARDS["x"])
    kept, dropped = (torch.randn(5, requires_grad=True) * 1 for _ in range(2))
    alive, dead = weakref.ref(kept.untyped_storage()), weakref.ref(dropped)
    output = f(kept, dropped) if how == "plainly" else f(x=kept, w=dropped)
    del kept, dropped
    gc.collect()
    assert dead() is None
    del alive
    output.sum().backward()


def test_nothing_is_left_when_the_output_is_gone():
    made = []

    def forward(x):
        inner = x * 2
        made.append(weakref.ref(inner))
        return inner.exp(), residuals(inner=inner)

    f = custom_gradient(forward, lambda g, output, inner: 2 * g * output)
    gc.disable()
    try:
        f(torch.randn(3, requires_grad=True))
        assert made[0]() is None
    finally:
        gc.enable()


def test_a_tensor_named_twice_is_saved_once():
    def forward(x):
        return x * 2, residuals(same=x)

    seen, _ = _saved_by(custom_gradient(forward, lambda g, x, same: 2 * g), torch.randn(3, requires_grad=True))
    assert len(seen) == 1


def test_saved_tensors_that_were_written_on_are_noticed():
    f = custom_gradient(lambda x, w: x * w, lambda g, x, w: (g * w, g * x))
    x, w = torch.randn(3, requires_grad=True), torch.randn(3)
    y = f(x, w)
    w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_hooks_for_saved_tensors_reach_them():
    f = custom_gradient(lambda x: x.exp(), lambda g, output: g * output)
    x = torch.randn(3, requires_grad=True)
    with torch.autograd.graph.save_on_cpu():
        y = f(x)
    torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], y.detach())


@pytest.mark.parametrize("how", ["plainly", "by keyword"])
def test_a_plain_value_is_kept_only_when_it_is_named(how):
    class Table:
        pass

    for backward, alive in ((lambda g: g, False), (lambda g, table: g, True)):
        f = custom_gradient(lambda x, table: x * 2, backward)
        table = Table()
        seen = weakref.ref(table)
        output = (
            f(torch.ones(2, requires_grad=True), table)
            if how == "plainly"
            else f(x=torch.ones(2, requires_grad=True), table=table)
        )
        del table
        gc.collect()
        assert (seen() is not None) == alive
        del output
