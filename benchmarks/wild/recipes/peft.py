"""peft 0.21.2: adapters."""

from collections.abc import Iterator

import torch

from wild.case import SAVED, Case, case
from wild.loading import load, stand_in

REAL = {"GW106": SAVED}


def cases() -> Iterator[Case]:
    for name in (
        "peft.tuners.lycoris_utils",
        "peft.tuners.tuners_utils",
        "peft.tuners.loha.config",
        "peft.tuners.randlora.config",
    ):
        stand_in(
            name,
            LycorisLayer=object,
            LoHaConfig=object,
            RandLoraConfig=object,
            BaseTunerLayer=object,
            check_adapters_to_merge=None,
        )
    stand_in("peft.utils.other", transpose=None)
    stand_in("peft.tuners._buffer_dict", BufferDict=dict)
    c3a = load("peft.tuners.c3a.utils", "peft")
    loha = load("peft.tuners.loha.layer", "peft")
    randlora = load("peft.tuners.randlora.layer", "peft")
    yield case(
        c3a.BlockCircularConvolution,
        torch.randn(3, 8),
        torch.randn(2, 2, 4),
        truth="wrong",
        why="in x: fft(fft(g) ifft(w)) is the sum of g[t] w[u + t]; the forward's transpose is that of g[t] w[u - t]",
    )
    one = torch.tensor(1.5)
    pairs = [torch.randn(shape, requires_grad=True) for shape in ((4, 2), (2, 3), (4, 2), (2, 3))]
    yield case(loha.HadaWeight, *pairs, one)
    parts = [
        torch.randn(shape, requires_grad=True) for shape in ((2, 2, 3, 3), (2, 4), (2, 5), (2, 2, 3, 3), (2, 4), (2, 5))
    ]
    yield case(
        loha.HadaWeightCP,
        *parts,
        one,
        truth="wrong",
        why="in w1a and w2a: temp is the product of the other pair (t2, w2b for w1a), where its own is needed",
    )
    yield case(
        randlora.UniqueBaseGrad,
        torch.randn(2, 1, 5),
        torch.randn(2, 3, requires_grad=True),
        torch.randn(3, 5, requires_grad=True),
    )
