"""torch-struct 0.5: semirings, some with sampled backwards."""

from collections.abc import Iterator

import torch

from wild.case import SAVED, Case, case
from wild.loading import load

REAL = {"GW106": SAVED}


def cases() -> Iterator[Case]:
    sample = load("torch_struct.semirings.sample", "torch-struct")
    sparse = load("torch_struct.semirings.sparse_max", "torch-struct")
    sampled = "the backward is a sample from softmax, whose expectation is the gradient: it is drawn anew every time"
    yield case(sample._SampledLogSumExp, torch.randn(3, 4), -1, truth="surrogate", why=sampled, GW107=sampled)
    yield case(
        sparse._SimplexProject,
        torch.randn(3, 4),
        -1,
        truth="wrong",
        why="returns the argmax w of <x, w> - |w|²/2; but the forward's value subtracts |w|, the norm itself",
    )
