"""ring-attention-pytorch 0.5.20, on one machine."""

from collections.abc import Iterator

import torch

from wild.case import Case, case
from wild.loading import load


def cases() -> Iterator[Case]:
    load("einops", "einops", bare=False)
    module = load("ring_attention_pytorch.ring_flash_attention", "ring-attention-pytorch")
    q, k, v = (torch.randn(1, 6, 2, 4) for _ in range(3))
    for causal in (False, True):
        yield case(
            module.RingFlashAttentionFunction,
            q,
            k,
            v,
            None,
            causal,
            3,
            False,
            False,
            None,
            None,
            False,
            50.0,
            name=f"RingFlashAttentionFunction, causal {causal}",
        )
    yield case(
        module.RingFlashAttentionFunction,
        q,
        k,
        v,
        None,
        False,
        3,
        False,
        False,
        None,
        None,
        True,
        5.0,
        name="RingFlashAttentionFunction, softclamped",
    )
