"""What does einsum bring? Beside matmul and its kin, at the shapes of the source and at others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from asked.answer import SLOW, Answer, claim
from asked.measuring import in_turn, middle, operations, peak_bytes, ratio, shown


class MyEinsumFunction(torch.autograd.Function):
    """As printed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return torch.einsum("ij,jk->ik", x, y)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        grad_x = torch.einsum("ik,jk->ij", grad_output, y)
        grad_y = torch.einsum("ij,ik->jk", x, grad_output)
        return grad_x, grad_y


Way = Callable[..., Tensor]
SHAPES: dict[str, tuple[tuple[tuple[int, ...], ...], Way, Way]] = {
    "ij,jk->ik, 100 x 50 x 200, x @ y": (
        ((100, 50), (50, 200)),
        lambda x, y: torch.einsum("ij,jk->ik", x, y),
        torch.matmul,
    ),
    "the same, MyEinsumFunction, x @ y": (((100, 50), (50, 200)), MyEinsumFunction.apply, torch.matmul),
    "ij,jk->ik, 8 x 8 x 8, x @ y": (
        ((8, 8), (8, 8)),
        lambda x, y: torch.einsum("ij,jk->ik", x, y),
        torch.matmul,
    ),
    "ij,jk->ik, 512 x 512 x 512, x @ y": (
        ((512, 512), (512, 512)),
        lambda x, y: torch.einsum("ij,jk->ik", x, y),
        torch.matmul,
    ),
    "bij,bkj->bik, 32 x 64 x 64 x 64, x @ y.mT": (
        ((32, 64, 64), (32, 64, 64)),
        lambda x, y: torch.einsum("bij,bkj->bik", x, y),
        lambda x, y: x @ y.mT,
    ),
    "ij,ij->i, 1000 x 1000, (x * y).sum(1)": (
        ((1000, 1000), (1000, 1000)),
        lambda x, y: torch.einsum("ij,ij->i", x, y),
        lambda x, y: (x * y).sum(1),
    ),
    "ij,jk,kl->il, 400 x 400 x 400 x 4, x @ (y @ z)": (
        ((400, 400), (400, 400), (400, 4)),
        lambda x, y, z: torch.einsum("ij,jk,kl->il", x, y, z),
        lambda x, y, z: x @ (y @ z),
    ),
    "bi,ij,bj->b, 1000 x 64 x 64, ((x @ w) * y).sum(1)": (
        ((1000, 64), (64, 64), (1000, 64)),
        lambda x, w, y: torch.einsum("bi,ij,bj->b", x, w, y),
        lambda x, w, y: ((x @ w) * y).sum(1),
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
        jobs = {
            "einsum": lambda way=einsum, given=tensors: way(*given),
            "plain": lambda way=plain, given=tensors: way(*given),
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
    products = [value for name, value in ratios.items() if name.startswith(("ij,jk->ik", "bij"))]
    path = next(value for name, value in ratios.items() if "kl->il" in name)
    return Answer(
        "einsum beside plain products",
        rows,
        {
            "einsum is often more optimised than matrix products": claim(
                SLOW,
                min(products) < 0.9,
                f"{first:.2f} times the time of x @ y at the printed shapes, {min(products):.2f} to "
                f"{max(products):.2f} at all; of three factors in an unlucky order {path:.1f} times",
            )
        },
    )
