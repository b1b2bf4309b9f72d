"""Norms and inner products of gradients of all kinds."""

import pytest
import torch
from torch import Tensor

from gradwright.training.products import added, gram, squares


def drawn(dtype: torch.dtype) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(size).to(dtype) for size in ((3, 5), (7,), (), (0, 4))]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.complex64])
def test_squares_are_those_of_each_tensor(dtype: torch.dtype) -> None:
    tensors = drawn(dtype)
    expected = torch.stack([one.to(torch.complex128).abs().square().sum() for one in tensors])
    found = squares(tensors)
    assert found.dtype == torch.float64
    assert torch.allclose(found, expected, rtol=1e-12 if dtype == torch.float64 else 1e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.complex64])
def test_gram_holds_all_inner_products(dtype: torch.dtype) -> None:
    vectors: list[list[Tensor | None]] = [
        [one * factor for one in drawn(dtype)[at:]] for at, factor in ((0, 1.0), (0, -2.0))
    ]
    vectors.append([drawn(dtype)[0].flip(0), None, torch.ones((), dtype=dtype), torch.ones(0, 4, dtype=dtype)])
    long = torch.stack(
        [
            torch.cat(
                [torch.view_as_real((torch.zeros(7) if part is None else part).to(torch.complex128)).reshape(-1)
                 for part in vector]
            )
            for vector in vectors
        ]
    )  # fmt: skip
    found = gram(vectors)
    assert torch.allclose(found, long @ long.T, rtol=1e-12 if dtype == torch.float64 else 1e-5, atol=1e-12)
    assert torch.equal(found, found.T)


def test_tensors_of_several_dtypes_are_taken_together() -> None:
    tensors = [torch.ones(2, dtype=torch.float64), torch.ones(3, dtype=torch.bfloat16)]
    assert squares(tensors).tolist() == pytest.approx([2, 3], rel=1e-6) and gram([tensors])[0, 0] == 5


def test_small_differences_of_narrow_types_are_not_lost() -> None:
    """A product in bfloat16 has three digits."""
    tensor = torch.full((1000,), 1.0078125, dtype=torch.bfloat16)
    assert float(gram([[tensor]])[0, 0]) == pytest.approx(1000 * 1.0078125**2, rel=1e-6)


def test_of_nothing_there_is_nothing() -> None:
    assert squares([]).tolist() == [] and gram([[], []]).tolist() == [[0, 0], [0, 0]]
    assert gram([[None], [None]]).tolist() == [[0, 0], [0, 0]] and gram([]).tolist() == []


def test_a_sum_of_one_part_is_the_part_and_of_none_none() -> None:
    one = torch.ones(2)
    assert added([None, one, None]) is one and added([None]) is None
    assert torch.equal(added([one, None, one]), 2 * one)
