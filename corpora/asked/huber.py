"""Which Huber is fastest? Masks, torch.where, torch's own, gw.losses, torch.compile: time, operations, bytes."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import gradwright as gw
from corpora.asked.answer import NOTES, Answer, claim
from corpora.asked.measuring import error, in_turn, middle, operations, page_faults, peak_bytes, ratio, shown

LIMIT = 1.0
Loss = Callable[[Tensor, Tensor], Tensor]


def by_masks(prediction: Tensor, target: Tensor) -> Tensor:
    """Two parts, each times a mask, added up."""
    gap = (prediction - target).abs()
    inside = gap <= LIMIT
    outer = (LIMIT * gap - LIMIT**2 / 2) * ~inside
    return (outer + gap.square() / 2 * inside).mean()


def by_where(prediction: Tensor, target: Tensor) -> Tensor:
    gap = (prediction - target).abs()
    return torch.where(gap > LIMIT, LIMIT * gap - LIMIT**2 / 2, gap.square() / 2).mean()


def by_clamp(prediction: Tensor, target: Tensor) -> Tensor:
    """c (|e| - c / 2) with c = min(|e|, limit): both branches in one formula."""
    gap = (prediction - target).abs()
    near = gap.clamp(max=LIMIT)
    return (near * (gap - near / 2)).mean()


def saved_bytes(loss: Loss, prediction: Tensor, target: Tensor) -> int:
    """What is kept for the backward beside the two inputs, each storage once."""
    kept: dict[int, int] = {}
    own = {tensor.untyped_storage().data_ptr() for tensor in (prediction, target)}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = loss(prediction, target)
    del result
    return sum(kept.values())


def ways(quick: bool) -> dict[str, Loss]:
    found: dict[str, Loss] = {
        "torch.where": by_where,
        "two masks": by_masks,
        "clamp": by_clamp,
        "F.huber_loss": lambda prediction, target: F.huber_loss(prediction, target, delta=LIMIT),
        "gw.losses.huber_loss": lambda prediction, target: gw.losses.huber_loss(prediction, target, delta=LIMIT),
    }
    if not quick:
        found["torch.compile of torch.where"] = torch.compile(by_where, dynamic=False)
    return found


OPAQUE = ("gw.losses.huber_loss", "torch.compile of torch.where")  # a mode that counts would change what they run


def measure(rounds: int, quick: bool) -> Answer:
    rows: dict[str, dict[str, Any]] = {}
    slower: dict[int, float] = {}
    fastest: dict[int, str] = {}
    counts: dict[str, tuple[int, int]] = {}  # forward, backward
    warm_up = 0.0
    for size in (1_000, 100_000) if quick else (1_000, 1_000_000, 10_000_000):
        torch.manual_seed(0)
        prediction, target = (2 * torch.randn(size)).requires_grad_(), torch.randn(size)
        exact = prediction.detach().double().requires_grad_()
        (true,) = torch.autograd.grad(by_where(exact, target.double()), exact)
        losses = ways(quick)

        def gradient(loss: Loss, given: Tensor = prediction, target: Tensor = target) -> tuple[Tensor, ...]:
            return torch.autograd.grad(loss(given, target), given)

        jobs = {name: partial(gradient, loss) for name, loss in losses.items()}
        if not quick:
            started = time.perf_counter()
            jobs["torch.compile of torch.where"]()
            warm_up = max(warm_up, time.perf_counter() - started)
        took = in_turn(jobs, rounds)
        where = took["torch.where"]
        for name, loss in losses.items():
            job = jobs[name]
            if name not in OPAQUE:
                ahead = operations(lambda loss=loss, p=prediction, t=target: loss(p, t)).computed  # type: ignore[misc]
                counts[name] = ahead, operations(job).computed - ahead
            rows[f"{size:,}: {name}"] = {
                "us": shown(middle(took[name]) * 1e6),
                "times torch.where": f"{ratio(took[name], where):.2f}",
                "operations": " + ".join(map(str, counts[name])) if name in counts else "-",
                "peak bytes an element": f"{peak_bytes(job) / size:.1f}",
                "kept beside the inputs": f"{saved_bytes(losses[name], prediction, target) / size:.1f}",
                "page faults": f"{page_faults(job):,}",
                "error": error(job()[0], true),
            }
        slower[size] = ratio(took["two masks"], where)
        fastest[size] = min(jobs, key=lambda name: middle(took[name]))
    best = "; ".join(f"{name} at {size:,}" for size, name in fastest.items())
    large = max(slower)
    extra = float(rows[f"{large:,}: two masks"]["peak bytes an element"]) - float(
        rows[f"{large:,}: torch.where"]["peak bytes an element"]
    )
    claims = {
        "torch.where is the fastest way": claim(
            NOTES, set(fastest.values()) == {"torch.where"}, f"fastest of all: {best}"
        ),
        "masks cost operations and memory": claim(
            NOTES,
            counts["two masks"][0] > counts["torch.where"][0],
            f"forward {counts['two masks'][0]} operations, torch.where {counts['torch.where'][0]}; backward "
            f"{counts['two masks'][1]}, torch.where {counts['torch.where'][1]}; at {large:,} "
            f"{slower[large]:.2f} times its time, {extra:+.1f} bytes an element at the peak",
            so_far="in the forward",
        ),
    }
    if warm_up:
        claims["torch.where is the fastest way"]["measured"] += f"; torch.compile's first call {warm_up:.0f} s"
    return Answer("Which Huber", rows, claims)
