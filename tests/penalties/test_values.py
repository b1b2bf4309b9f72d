from __future__ import annotations

import pytest
import torch

from gradwright.errors import UsageError
from gradwright.penalties.values import norms, one_each, squares


def test_the_norm_is_over_every_axis_but_the_first() -> None:
    block = torch.arange(24.0).reshape(2, 3, 2, 2)
    torch.testing.assert_close(norms(block), torch.stack([block[0].norm(), block[1].norm()]))
    torch.testing.assert_close(squares(block), norms(block).square())


def test_the_derivative_of_a_norm_of_zeros_is_zero() -> None:
    block = torch.zeros(2, 3, dtype=torch.float64)
    block[1] = torch.tensor([3.0, 0.0, 4.0])
    block.requires_grad_()
    (gradient,) = torch.autograd.grad(norms(block).sum(), block)
    torch.testing.assert_close(gradient, torch.tensor([[0.0, 0, 0], [0.6, 0, 0.8]], dtype=torch.float64))


def test_float16_does_not_overflow() -> None:
    block = torch.full((1, 4), 300.0, dtype=torch.float16)
    assert squares(block).item() == 360_000
    assert norms(block).item() == 600


def test_complex_entries_count_by_their_size() -> None:
    assert squares(torch.tensor([[3 + 4j, 0]])).item() == 25


@pytest.mark.parametrize("shape", [(4,), (4, 1), (4, 1, 1, 1)], ids=str)
def test_one_number_per_sample_may_have_axes_of_one(shape: tuple[int, ...]) -> None:
    assert one_each(torch.zeros(shape), "scores").shape == (4,)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (torch.zeros(()), "a scalar; needed is one number per sample"),
        (torch.zeros(4, 3), r"shape \[4, 3\]; needed is one number per sample, \[4\].*flatten"),
        ([1.0], "a list; needed is a tensor"),
    ],
    ids=["scalar", "several", "list"],
)
def test_anything_else_is_said(values: object, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        one_each(values, "scores")


def test_another_number_of_samples_is_said() -> None:
    with pytest.raises(UsageError, match=r"needed is one number per sample, \[5\]"):
        one_each(torch.zeros(4), "scores", 5)
