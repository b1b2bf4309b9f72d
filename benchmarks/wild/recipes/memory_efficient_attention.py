"""memory-efficient-attention-pytorch 0.1.6: attention by buckets in plain torch."""

from collections.abc import Iterator

import torch

from wild.case import SAVED, Case, case
from wild.loading import load

REAL = {"GW106": SAVED}


def cases() -> Iterator[Case]:
    load("einops", "einops", bare=False)
    flash = load("memory_efficient_attention_pytorch.flash_attention", "memory-efficient-attention-pytorch")
    cosine = load("memory_efficient_attention_pytorch.cosine_sim_flash_attention", "memory-efficient-attention-pytorch")
    q, k, v = (torch.randn(1, 2, 6, 4) for _ in range(3))
    unit = torch.nn.functional.normalize

    def cosine_attention(q, k, v, causal):  # type: ignore[no-untyped-def]
        """As the package's own module calls it: the Function is for unit vectors."""
        return cosine.FlashAttentionFunction.apply(unit(q, dim=-1), unit(k, dim=-1), v, None, 8, causal, 3, 3)

    clamped = "row sums are clamped at 1e-6; unit vectors at scale 8 reach 1e-7, and no backward knows of the clamp"
    for causal in (False, True):
        yield case(
            flash.FlashAttentionFunction, q, k, v, None, causal, 3, 3, name=f"FlashAttentionFunction, causal {causal}"
        )
        yield case(
            cosine_attention,
            q,
            k,
            v,
            causal,
            name=f"cosine FlashAttentionFunction, causal {causal}",
            **({} if causal else {"GW103": clamped}),
        )
    mask = torch.tensor([[True, True, True, True, False, False]])
    yield case(flash.FlashAttentionFunction, q, k, v, mask, False, 3, 3, name="FlashAttentionFunction, masked")
