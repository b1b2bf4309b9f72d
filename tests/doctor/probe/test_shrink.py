"""Smaller neighbours: shapes that belong together stay together."""

import torch

from gradwright.doctor.probe.shrink import describe, fresh, shrink


def test_equal_sizes_stay_equal_and_different_ones_different() -> None:
    x, w, n = shrink((torch.ones(1000, 50), torch.ones(50, 200), 1000), 12)
    assert x.shape[1] == w.shape[0]
    assert len({x.shape[0], x.shape[1], w.shape[1]}) == 3
    assert n == x.shape[0]


def test_what_is_small_stays_as_it_is() -> None:
    (x, flag, name) = shrink((torch.ones(3, 4), True, "sum"), 12)
    assert (tuple(x.shape), flag, name) == ((3, 4), True, "sum")


def test_layout_and_requires_grad_are_kept() -> None:
    wide = torch.ones(100, 1).expand(100, 100).requires_grad_()
    turned = torch.ones(100, 50).t()
    a, b = shrink((wide, turned), 12)
    assert a.stride()[1] == 0 and a.requires_grad
    assert not b.is_contiguous() and not b.requires_grad


def test_the_original_is_never_shared() -> None:
    x = torch.ones(100, 3)
    (small,) = shrink((x,), 12)
    (copy,) = fresh((x,))
    small.zero_()
    copy.zero_()
    assert x.sum() == 300


def test_a_description_names_dtypes_and_shapes() -> None:
    assert describe((torch.ones(2, 3), 4, torch.arange(5))) == "float32[2, 3], int64[5]"
    assert describe((1,)) == "no tensor"
