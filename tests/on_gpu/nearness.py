"""What was computed on the device beside the truth, computed in float64 on a CPU."""

from __future__ import annotations

import torch
from torch import Tensor


def assert_near(found: Tensor, known: Tensor, tolerance: float, what: str) -> None:
    """``tolerance``: relative to each entry, and to the largest one. The message says of what, by which entry."""
    assert found.shape == known.shape, f"{what} has shape {list(found.shape)}, and not {list(known.shape)}"
    truth = known.detach().cpu().double()
    atol = tolerance * (truth.abs().max().item() if truth.numel() else 0.0)
    torch.testing.assert_close(
        found.detach().cpu().double(),
        truth,
        rtol=tolerance,
        atol=atol,
        msg=lambda text: f"{what}, {found.dtype} on {found.device}, beside float64 on a CPU\n{text}",
    )


def copied(tensor: Tensor, device: str = "cpu", dtype: torch.dtype = torch.float64) -> Tensor:
    """A leaf of the same numbers elsewhere, which requires a gradient."""
    return tensor.detach().to(device, dtype, copy=True).requires_grad_()
