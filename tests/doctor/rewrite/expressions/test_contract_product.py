"""A product that is made to be summed becomes an einsum: the same sums, for every size, and no product in memory."""

import random

import pytest
import torch

from gradwright.doctor.rewrite.expressions.contract_product import LETTERS


def text(expression: str) -> str:
    return f"import torch\n\n\ndef f(a, b):\n    return {expression}\n"


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


CASES = {
    "a matrix product": ("(a[:, :, None] * b[None]).sum(1)", (9, 8), (8, 7), 'torch.einsum("ij,jk->ik", a, b)'),
    "by torch.sum": ("torch.sum(a.unsqueeze(2) * b, dim=-2)", (9, 8), (8, 7), 'torch.einsum("ij,jk->ik", a, b)'),
    "with an ellipsis": ("(a[..., None] * b).sum(dim=1)", (9, 8), (8, 7), 'torch.einsum("ij,jk->ik", a, b)'),
    "of a transposed factor": ("(a[:, None] * b[None]).sum(-1)", (9, 8), (7, 8), 'torch.einsum("ik,jk->ij", a, b)'),
    "a batch of them": (
        "(a[:, :, :, None] * b[:, None]).sum(2)", (3, 5, 8), (3, 8, 7), 'torch.einsum("ijk,ikl->ijl", a, b)',
    ),
    "a kept axis": (
        "(a[:, :, None] * b).sum(1, keepdim=True)", (9, 8), (8, 7), 'torch.einsum("ij,jk->ik", a, b).unsqueeze(1)',
    ),
    "over two axes": ("(a[:, :, None] * b).sum((0, 1))", (9, 8), (8, 7), 'torch.einsum("ij,jk->k", a, b)'),
    "over all": ("(a[:, :, None] * b).sum()", (9, 8), (8, 7), 'torch.einsum("ij,jk->", a, b)'),
    "of an expression": (
        "((a - 1)[:, :, None] * b.exp()).sum(1)", (9, 8), (8, 7), 'torch.einsum("ij,jk->ik", a - 1, b.exp())',
    ),
    "of three factors": (
        "(a[:, :, None] * b * (b + 1)[None]).sum(1)", (9, 8), (8, 7), 'torch.einsum("ij,jk,jk->ik", a, b, b + 1)',
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_product_that_is_summed_becomes_an_einsum(name: str, rewritten) -> None:
    expression, one, other, expected = CASES[name]
    done = rewritten("product summed", text(expression), normal(*one), normal(*other, seed=1))
    assert done is not None and done.lines == [f"return {expected}"]
    assert done.agrees(normal(*one, seed=2), normal(*other, seed=3))


@pytest.mark.parametrize("sizes", [(1, 8, 7), (9, 1, 7), (0, 8, 7), (9, 0, 7)], ids=str)
def test_the_einsum_holds_for_other_sizes(sizes: tuple, rewritten) -> None:
    done = rewritten("product summed", text("(a[:, :, None] * b[None]).sum(1)"), normal(9, 8), normal(8, 7))
    n, k, m = sizes
    assert done.agrees(normal(n, k), normal(k, m, seed=1))
    assert done.agrees(normal(n, 1), normal(8, m, seed=1)), "an axis of length 1 broadcasts, as it did"


DECLINED = {
    "the product is no larger than its factors": "(a.T * b).sum(1)",
    "the axes are computed": "(a[:, :, None] * b[None]).sum(a.dim() - 1)",
    "a number is a factor": "(2 * a[:, :, None] * b[None]).sum(1)",
    "another dtype is asked for": "(a[:, :, None] * b[None]).sum(1, dtype=torch.float64)",
    "several axes are kept": "(a[:, :, None] * b[None]).sum((0, 1), keepdim=True)",
}


@pytest.mark.parametrize("expression", DECLINED.values(), ids=list(DECLINED))
def test_what_is_no_plain_contraction_is_left_alone(expression: str, rewritten) -> None:
    assert rewritten("product summed", text(expression), normal(7, 8), normal(8, 7, seed=1)) is None


def test_a_loop_around_it_is_another_matter(rewritten) -> None:
    looped = (
        "import torch\n\n\ndef f(a, b):\n    for _ in range(3):\n        c = (a[:, :, None] * b).sum(1)\n    return c\n"
    )
    assert rewritten("product summed", looped, normal(9, 8), normal(8, 7)) is None


def test_the_comparison_rejects_a_wrong_einsum(rewritten) -> None:
    done = rewritten("product summed", text("(a[:, :, None] * b[None]).sum(1)"), normal(8, 8), normal(8, 8, seed=1))
    wrong = type(done)([], done.before, lambda a, b: torch.einsum("ij,kj->ik", a, b))
    assert not wrong.agrees(normal(8, 8), normal(8, 8, seed=1))


@pytest.mark.parametrize("seed", range(25))
def test_a_random_contraction_is_rewritten_right(seed: int, rewritten) -> None:
    """Factors with random axes of a random product, the others put in by `None`, summed over random axes."""
    draw = random.Random(seed)
    rank = draw.choice([2, 3, 4])
    lengths = draw.sample([2, 3, 4, 5], rank)
    axes = [sorted(draw.sample(range(rank), draw.randint(1, rank))) for _ in range(2)]
    axes[1] = sorted({*axes[1], *(set(range(rank)) - set(axes[0]))})
    views = ["[" + ", ".join(":" if axis in mine else "None" for axis in range(rank)) + "]" for mine in axes]
    summed = sorted(draw.sample(range(rank), draw.randint(1, rank)))
    shown = ", ".join(str(axis - rank if draw.random() < 0.5 else axis) for axis in summed)
    inputs = [normal(*(lengths[axis] for axis in mine), seed=7) for mine in axes]
    done = rewritten("product summed", text(f"(a{views[0]} * b{views[1]}).sum(({shown},))"), *inputs)
    assert done is None or done.agrees(*inputs)
    assert LETTERS.startswith("ijkl")
