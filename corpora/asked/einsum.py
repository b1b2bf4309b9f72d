"""What does einsum bring? Beside matmul and its kin: scores of queries and keys, sums of products, three factors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from corpora.asked.answer import SLOW, Answer, claim
from corpora.asked.measuring import in_turn, middle, operations, peak_bytes, ratio, shown


class ScoresByEinsum(torch.autograd.Function):
    """The scores of queries [Q, D] and keys [K, D], with the gradients that autograd has as well."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor) -> Tensor:
        ctx.save_for_backward(q, k)
        return scores(q, k)

    @staticmethod
    def backward(ctx: Any, of_scores: Tensor) -> tuple[Tensor, Tensor]:
        q, k = ctx.saved_tensors
        return torch.einsum("kd,qk->qd", k, of_scores), torch.einsum("qk,qd->kd", of_scores, q)


def scores(q: Tensor, k: Tensor) -> Tensor:
    return torch.einsum("qd,kd->qk", q, k)


def plain_scores(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT


Way = Callable[..., Tensor]
SHAPES: dict[str, tuple[tuple[tuple[int, ...], ...], Way, Way]] = {
    "qd,kd->qk, 96 x 40 and 160 x 40, q @ k.mT": (((96, 40), (160, 40)), scores, plain_scores),
    "the same, ScoresByEinsum, q @ k.mT": (((96, 40), (160, 40)), ScoresByEinsum.apply, plain_scores),
    "qd,kd->qk, 8 x 8 both, q @ k.mT": (((8, 8), (8, 8)), scores, plain_scores),
    "qd,kd->qk, 512 x 512 both, q @ k.mT": (((512, 512), (512, 512)), scores, plain_scores),
    "bqd,bkd->bqk, 32 x 64 x 64 both, q @ k.mT": (
        ((32, 64, 64), (32, 64, 64)),
        lambda q, k: torch.einsum("bqd,bkd->bqk", q, k),
        plain_scores,
    ),
    "nd,nd->n, 1000 x 1000 both, (q * k).sum(1)": (
        ((1000, 1000), (1000, 1000)),
        lambda q, k: torch.einsum("nd,nd->n", q, k),
        lambda q, k: (q * k).sum(1),
    ),
    "ab,bc,cd->ad, 400 x 400 x 400 x 4, x @ (y @ z)": (
        ((400, 400), (400, 400), (400, 4)),
        lambda x, y, z: torch.einsum("ab,bc,cd->ad", x, y, z),
        lambda x, y, z: x @ (y @ z),
    ),
    "nd,de,ne->n, 1000 x 64 x 64, ((q @ w) * k).sum(1)": (
        ((1000, 64), (64, 64), (1000, 64)),
        lambda q, w, k: torch.einsum("nd,de,ne->n", q, w, k),
        lambda q, w, k: ((q @ w) * k).sum(1),
    ),
}


def back_of(way: Way, tensors: list[Tensor]) -> Callable[[], Any]:
    y = way(*tensors)
    cotangent = torch.ones_like(y)
    return lambda: torch.autograd.grad(y, tensors, cotangent, retain_graph=True)


def measure(rounds: int, quick: bool) -> Answer:
    rows: dict[str, dict[str, object]] = {}
    ratios: dict[str, float] = {}
    for name, (shapes, einsum, plain) in SHAPES.items():
        torch.manual_seed(0)
        tensors = [torch.randn(shape, requires_grad=True) for shape in shapes]
        torch.testing.assert_close(einsum(*tensors), plain(*tensors), rtol=1e-3, atol=1e-2)
        jobs: dict[str, Callable[[], Any]] = {
            "einsum": partial(einsum, *tensors),
            "plain": partial(plain, *tensors),
            "einsum back": back_of(einsum, tensors),
            "plain back": back_of(plain, tensors),
        }
        for one, other in zip(jobs["einsum back"](), jobs["plain back"](), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-2)
        took = in_turn(jobs, rounds)
        ahead, back = operations(jobs["einsum"]), operations(jobs["plain"])
        ratios[name] = ratio(took["einsum"], took["plain"])
        rows[name] = {
            "einsum_us": shown(middle(took["einsum"]) * 1e6),
            "plain_us": shown(middle(took["plain"]) * 1e6),
            "einsum / plain, forward": f"{ratios[name]:.2f}",
            "einsum / plain, backward": f"{ratio(took['einsum back'], took['plain back']):.2f}",
            "operations + views": f"{ahead.computed} + {ahead.views}",
            "of the plain": f"{back.computed} + {back.views}",
            "peak KiB": f"{peak_bytes(jobs['einsum']) / 2**10:,.0f}",
            "of the plain's": f"{peak_bytes(jobs['plain']) / 2**10:,.0f}",
        }
    first, *_ = ratios.values()
    products = [value for name, value in ratios.items() if name.startswith(("qd,kd", "bqd"))]
    path = next(value for name, value in ratios.items() if "cd->ad" in name)
    return Answer(
        "einsum beside plain products",
        rows,
        {
            "einsum is usually faster than a plain product": claim(
                SLOW,
                min(products) < 0.9,
                f"{first:.2f} times the time of q @ k.mT for 96 queries and 160 keys, {min(products):.2f} to "
                f"{max(products):.2f} at all sizes; of three factors in an unlucky order {path:.1f} times",
            )
        },
    )
