"""Weights and biases of convolutions: against a loop, first and second order."""

import pytest
import torch
from tests.derivatives.per_sample.judge import Case, ids, judge, of_module
from torch import Tensor, nn

PLAIN = {
    "plain": {},
    "stride and padding": {"stride": 2, "padding": 1},
    "dilation": {"dilation": 2, "padding": 2},
    "groups": {"groups": 2},
    "depthwise": {"groups": 4, "padding": 1},
    "same": {"padding": "same"},
    "circular": {"padding": 1, "padding_mode": "circular"},
    "uneven": {"stride": (2, 1), "padding": (0, 2), "dilation": (1, 2)},
    "no bias": {"bias": False},
}


class Frames(nn.Module):
    """A convolution over the frames of videos, [B, T, C, H, W]: time and batch merged, one way or the other."""

    def __init__(self, time_first: bool) -> None:
        super().__init__()
        self.time_first, self.eye, self.head = time_first, nn.Conv2d(4, 3, 3), nn.Linear(3, 2)

    def forward(self, video: Tensor) -> Tensor:
        if self.time_first:
            video = video.transpose(0, 1)
        seen = self.eye(video.flatten(0, 1)).tanh().mean((2, 3)).unflatten(0, video.shape[:2])
        found = self.head(seen)
        return found.transpose(0, 1) if self.time_first else found


CASES = [
    *(
        of_module(name, lambda given=given: nn.Sequential(nn.Conv2d(4, 8, 3, **given), nn.Tanh()), 3, 4, 6, 7)
        for name, given in PLAIN.items()
    ),
    of_module("a signal", lambda: nn.Sequential(nn.Conv1d(4, 6, 3, 2, 1, dilation=2, groups=2), nn.Tanh()), 3, 4, 9),
    of_module("a volume", lambda: nn.Sequential(nn.Conv3d(2, 3, 2, stride=2, padding=1), nn.Tanh()), 3, 2, 4, 4, 4),
    of_module(
        "transposed",
        lambda: nn.Sequential(
            nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), nn.Tanh(),
            nn.ConvTranspose2d(6, 2, 2, dilation=2),
        ), 3, 4, 4, 4,
    ),
    of_module("transposed signal", lambda: nn.ConvTranspose1d(4, 6, 3, stride=2), 3, 4, 5),
    of_module(
        "pooled",
        lambda: nn.Sequential(
            nn.Conv2d(4, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 3, 2, padding=1), nn.AdaptiveAvgPool2d(1),
            nn.Flatten(), nn.Linear(3, 2),
        ), 3, 4, 6, 6,
    ),
    of_module("frames, batch outside", lambda: Frames(False), 3, 2, 4, 5, 5),
    of_module("frames, time outside", lambda: Frames(True), 3, 2, 4, 5, 5),
]  # fmt: skip


@pytest.mark.parametrize("case", ids(CASES))
def test_kernels_are_those_of_a_loop(case: Case) -> None:
    judge(case)


def test_an_image_without_a_batch_axis_is_a_loss_of_its_own() -> None:
    net = nn.Conv2d(2, 3, 2).double()
    images = torch.randn(2, 2, 4, 4, dtype=torch.float64)
    losses = torch.stack([net(image).square().mean() for image in images])
    judge(Case("stacked", lambda generator: (losses, list(net.parameters()))), quick=False)
