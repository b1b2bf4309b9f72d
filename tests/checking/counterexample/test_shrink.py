"""A call made small while a fault persists."""

import torch

from gradwright.checking.counterexample.shrink import shrunk


class Fn(torch.autograd.Function):
    pass


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_sizes_first_then_values():
    x, w = shrunk(Fn, (draw(8, 6), draw(6)), lambda args: True)
    assert (x.tolist(), w.tolist()) == ([[1.0]], [1.0])


def test_only_as_far_as_the_fault_goes():
    def holds(args):
        return args[0].shape[0] >= 3 and float(args[0].min()) < 0

    (x,) = shrunk(Fn, (draw(9, 4),), holds)
    assert x.shape == (3, 1) and holds((x,)) and bool((x == x.round()).all())


def test_what_holds_for_nothing_less_is_left_alone():
    given = draw(4, 3)
    (x,) = shrunk(Fn, (given,), lambda args: args[0] is given)
    assert x is given


def test_the_number_of_tries_is_bounded():
    asked = []
    shrunk(Fn, (draw(64, 48), draw(48, 32)), lambda args: asked.append(args) or len(asked) % 3 == 0, tries=10)  # type: ignore[func-returns-value]
    assert len(asked) <= 10
