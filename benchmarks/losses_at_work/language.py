"""Losses of language models: a projection onto the vocabulary and its cross entropy."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from losses_at_work.subject import Maker, Subject, classes

WIDTH, WORDS = 256, 32_768


def _tokens(generator: Generator, size: int) -> list[Tensor]:
    """Hidden states [tokens, 256], the projection [32768, 256], next words [tokens]; ``size``: of all logits."""
    count = size // WORDS
    return [
        torch.randn(count, WIDTH, generator=generator),
        torch.randn(WORDS, WIDTH, generator=generator) / WIDTH**0.5,
        classes(generator, WORDS, count),
    ]


def _naive(x: Tensor, w: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(x @ w.T, y)


def _chunked(x: Tensor, w: Tensor, y: Tensor) -> Tensor:
    return F.linear_cross_entropy(x, w, y, options=torch.nn.LinearCrossEntropyOptions())


def _whole() -> Callable[..., Tensor] | None:
    """torch's own, which torch 2.11 doesn't have."""
    return getattr(F, "linear_cross_entropy", None)


def _against(name: str, theirs: Maker) -> Subject:
    return Subject(
        name,
        "other",
        lambda losses: losses.LinearCrossEntropyLoss(),
        _tokens,
        _naive,
        {"F": theirs},
        wanted=2,
        passes=0,
        sizes=(16_777_216,),
        cells=("bfloat16",),
    )


SUBJECTS = [
    _against("linear cross entropy, 32,768 words", _whole),
    _against("linear cross entropy, 32,768 words, F by chunks", lambda: _chunked if _whole() else None),
]
