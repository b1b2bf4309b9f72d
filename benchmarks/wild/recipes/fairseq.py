"""fairseq 0.12.2."""

from collections.abc import Iterator

import torch

from wild.case import Case, case
from wild.loading import load


def cases() -> Iterator[Case]:
    moe = load("fairseq.examples.translation_moe.translation_moe_src.logsumexp_moe", "fairseq")
    scalar = load("fairseq.modules.scalar_bias", "fairseq")
    multiply = load("fairseq.modules.grad_multiply", "fairseq")
    logp = torch.randn(3, 4, requires_grad=True)
    yield case(
        moe.LogSumExpMoE,
        logp,
        torch.softmax(torch.randn(3, 4), -1),
        -1,
        truth="surrogate",
        why="the posterior handed over stands for the softmax, on purpose: equal when it is the softmax",
    )
    yield case(scalar.ScalarBias, torch.randn(3, 4), 1, 0.5)
    yield case(multiply.GradMultiply, torch.randn(3, 4), 0.1, truth="surrogate", why="scales the gradient on purpose")
