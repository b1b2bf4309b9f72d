"""Programs drawn at random: something is told exactly where the loss or a gradient is not finite, with a cause."""

import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from gradwright.checking.nonfinite import explain_nonfinite

PIECES: tuple[Callable[[Tensor], Tensor], ...] = (
    *(
        torch.exp,
        torch.log,
        torch.sqrt,
        torch.abs,
        torch.neg,
        torch.relu,
        torch.sigmoid,
        torch.reciprocal,
        torch.square,
    ),
    lambda x: x.cumsum(0),
    lambda x: x.softmax(-1),
    lambda x: x.t().contiguous(),
    lambda x: x.reshape(-1).view(x.shape),
    lambda x: x - x.sum(1, keepdim=True),
    lambda x: x / x.mean(1, keepdim=True),
    lambda x: x / x.norm(dim=1, keepdim=True),
    lambda x: (x.half() * x.half()).float(),
    lambda x: torch.einsum("ij,jk->ik", x, x),
    lambda x: x.masked_fill(x < 0, -torch.inf),
)


def program(seed: int) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    draw = random.Random(seed)
    torch.manual_seed(seed)
    x = torch.randn(3, 3) * draw.choice((1, 10, 100))
    x = x.round() if draw.random() < 0.5 else x
    pieces = [draw.choice(PIECES) for _ in range(draw.randint(2, 7))]
    mask = torch.rand(3, 3) < 0.7 if draw.random() < 0.5 else None

    def run(leaf: Tensor) -> Tensor:
        for piece in pieces:
            leaf = piece(leaf)
        return (leaf if mask is None else torch.where(mask, leaf, 0.0)).sum()

    return x, run


@pytest.mark.parametrize("hundred", range(4))
def test_something_is_told_exactly_where_something_is_not_finite(hundred: int) -> None:
    told = 0
    for seed in range(100 * hundred, 100 * hundred + 100):
        x, run = program(seed)
        plain, watched = x.clone().requires_grad_(), x.clone().requires_grad_()
        loss = run(plain)
        loss.backward()
        with explain_nonfinite(echo=False) as watch:
            run(watched).backward()
        is_finite = bool(torch.isfinite(loss)) and bool(torch.isfinite(plain.grad).all())
        assert (watch.first is None) == is_finite, (seed, watch.report)
        assert watch.faults == []
        assert torch.equal(torch.nan_to_num(plain.grad, 7.0), torch.nan_to_num(watched.grad, 7.0))
        if watch.first is not None:
            told += 1
            assert watch.first.kind != "unknown", (seed, watch.report)
            assert watch.first.place.path == __file__
    assert 20 < told < 80
