"""A derived backward holds at other sizes than it was derived at, or raises."""

import math
import re
from math import sqrt
from typing import Any

import pytest
import torch

from gradwright.functions.derive import derive


def mean_of_product(x, weight):
    return (x * weight).mean()


def centred(x):
    return (x - x.mean(dim=1, keepdim=True)) / x.shape[0]


def scores(q, k):
    return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1).sum(0)


def halves(x):
    left, right = x.chunk(2, dim=-1)
    return left * torch.tanh(right)


def differences(x):
    return ((x[:, 1:] - x[:, :-1]) ** 2).sum()


def scaled(q, k):
    return torch.tanh(q @ k.mT / math.sqrt(q.shape[-1]))


def scaled_by_a_number(q, k):
    return torch.tanh(q @ k.mT / sqrt(q.shape[-1]))


def row_by_row(x):
    return torch.stack([row * row for row in x])


def mean_of_axis(x):
    return (x * x).mean(1)


def clamped(x):
    return x[-7:3].sin() * x[-7:3].exp()


def cut_short(x):
    return x[:9].sin().sum() + x[9:].exp().sum()


CASES: dict[Any, tuple[Any, Any]] = {
    mean_of_product: (((3, 4), (4,)), ((5, 7), (7,))),
    centred: (((3, 4),), ((5, 2),)),
    scores: (((2, 3, 4), (2, 5, 4)), ((3, 2, 6), (3, 4, 6))),
    scaled: (((3, 4), (5, 4)), ((2, 6), (3, 6))),
    halves: (((3, 4),), ((5, 10),)),
    differences: (((3, 4),), ((2, 9),)),
    clamped: (((5,),), ((9,),)),
    cut_short: (((5,),), ((12,),)),
}


def drawn(shapes: tuple[tuple[int, ...], ...], seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True) for shape in shapes]


@pytest.mark.parametrize("forward", CASES, ids=lambda forward: forward.__name__)
@pytest.mark.parametrize("form", ["custom gradient", "class"])
def test_it_is_autograds_at_another_size(forward: Any, form: str) -> None:
    here, there = CASES[forward]
    derived = derive(forward, *drawn(here), level="quick")
    call = derived.custom_gradient if form == "custom gradient" else derived.function.apply
    inputs = drawn(there, seed=1)
    found = torch.autograd.grad(call(*inputs).sin().sum(), inputs)
    expected = torch.autograd.grad(forward(*inputs).sin().sum(), inputs)
    assert all(torch.allclose(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("take", [lambda x: x[-7:3], lambda x: x[:, 0]], ids=["a slice", "a column"])
def test_what_is_taken_twice_is_put_among_zeros_once(take: Any) -> None:
    derived = derive(lambda x: take(x).sin() * take(x).exp(), *drawn(((5, 4),)), level="quick")
    assert len(re.findall(r"aten\.(slice|select)_backward\(", derived.source)) == 1


def test_a_size_that_was_taken_for_a_number_raises_elsewhere() -> None:
    derived = derive(row_by_row, *drawn(((3, 4),)), level="quick")
    assert derived.custom_gradient(*drawn(((3, 7),))).shape == (3, 7)
    with pytest.raises(ValueError, match=r"derived for x\.shape\[0\] == 3"):
        derived.custom_gradient(*drawn(((4, 4),)))


def test_a_size_that_left_torch_as_a_number_raises_elsewhere() -> None:
    derived = derive(scaled_by_a_number, *drawn(((3, 4), (5, 4))), level="quick")
    assert derived.custom_gradient(*drawn(((2, 4), (6, 4)))).shape == (2, 6)
    with pytest.raises(ValueError, match=r"derived for q\.shape\[1\] == 4"):
        derived.custom_gradient(*drawn(((3, 6), (5, 6)))).sum().backward()


def test_a_size_of_one_that_would_hide_a_division_raises_elsewhere() -> None:
    derived = derive(mean_of_axis, *drawn(((3, 1),)), level="quick")
    (x,) = drawn(((3, 2),))
    with pytest.raises(ValueError, match=r"derived for x\.shape\[1\] == 1"):
        derived.custom_gradient(x).sum().backward()


@pytest.mark.parametrize("shapes", [((3, 1), (4,)), ((3, 4), (1,))], ids=["x broadcasts", "weight broadcasts"])
def test_broadcasting_that_was_not_there_is_right_or_raises(shapes: Any) -> None:
    derived = derive(mean_of_product, *drawn(((3, 4), (4,))), level="quick")
    inputs = drawn(shapes)
    expected = torch.autograd.grad(mean_of_product(*inputs), inputs)
    try:
        found = torch.autograd.grad(derived.custom_gradient(*inputs), inputs)
    except Exception as error:
        assert "derived for" in str(error) or "gradient" in str(error)
    else:
        assert all(torch.allclose(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize(
    ("mode", "rank"), [("nearest", 1), ("nearest-exact", 2), ("linear", 1), ("bilinear", 2), ("trilinear", 3)]
)
@pytest.mark.parametrize("asked", [{"scale_factor": 2}, {"scale_factor": 1.5}], ids=["whole", "half"])
def test_interpolation_is_one_kernel_back_and_holds_at_other_sizes(mode: str, rank: int, asked: dict[str, Any]) -> None:
    def enlarged(x):
        return torch.nn.functional.interpolate(x, mode=mode, **asked).sin()

    derived = derive(enlarged, torch.randn(2, 3, *range(3, 3 + rank), dtype=torch.float64), level="quick")
    assert re.search(r"aten\._?upsample_\w+_backward\(", derived.source) and "arange" not in derived.source
    x = torch.randn(1, 2, *range(5, 5 + rank), dtype=torch.float64, requires_grad=True)
    expected, found = (torch.autograd.grad(call(x).sum(), x) for call in (enlarged, derived.custom_gradient))
    assert torch.allclose(found[0], expected[0])
