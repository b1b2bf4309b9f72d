"""speechbrain 1.1.2."""

from collections.abc import Iterator

import torch

from wild.case import SAVED, Case, case
from wild.loading import load

REAL = {"GW106": SAVED}


def cases() -> Iterator[Case]:
    quaternion = load("speechbrain.nnet.quaternion_networks.q_ops", "speechbrain", absent=("scipy",))
    beats = load("speechbrain.lobes.models.beats", "speechbrain", absent=("torchaudio", "speechbrain.dataio"))
    weights = [torch.randn(2, 3, requires_grad=True) for _ in range(4)]
    yield case(
        quaternion.QuaternionLinearCustomBackward,
        torch.randn(5, 8, requires_grad=True),
        *weights,
        torch.randn(12, requires_grad=True),
        GW210="all four weights hang on needs_input_grad[1]: with r_weight frozen the other three get nothing",
    )
    yield case(
        beats.GradMultiply,
        torch.randn(3, 4),
        0.1,
        truth="surrogate",
        why="scales the gradient on purpose; the forward is a copy",
    )
