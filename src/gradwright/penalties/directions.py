"""Random directions, one per sample, and what they are multiplied with.

NOTE [A direction per sample]: v_b^T J_b is the gradient of the number s_b = v_b . y_b with respect to z_b. So it is
asked for as the Jacobian of s [B], and whether samples meet is found out as for any other Jacobian, about s.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gradwright.derivatives.graph.request import BatchDim
from gradwright.derivatives.graph.target import Wrt
from gradwright.errors import UsageError


def flat_samples(y: Tensor, wrt: Wrt, batch_dim: BatchDim = 0) -> tuple[Tensor, BatchDim]:
    """``y`` as [B, K], and ``batch_dim`` as it is said of that.  Raises: UsageError for a scalar, or a complex y."""
    if not isinstance(y, Tensor) or y.ndim == 0 or y.is_complex():
        told = f"a {y.dtype} tensor of shape {list(y.shape)}" if isinstance(y, Tensor) else f"a {type(y).__name__}"
        raise UsageError(f"random directions are taken of real values per sample, [B, ...]; y is {told}")
    if not isinstance(batch_dim, tuple):
        batch_dim = (batch_dim, None if isinstance(wrt, nn.Parameter) else batch_dim)
    with torch.enable_grad():  # it is to be differentiated, whoever asks for the value alone
        first = y.movedim(batch_dim[0], 0) if batch_dim[0] else y
        flat = first.reshape(len(first), first[:1].numel() if len(first) else 0)
    return flat, (0, batch_dim[1])


def normal_numbers(count: int, like: Tensor, generator: torch.Generator | None) -> Tensor:
    """[count, *like.shape], independent and standard normal; of ``generator``, or of torch's own random numbers."""
    device = like.device if generator is None else generator.device
    drawn: Tensor = torch.randn(count, *like.shape, generator=generator, device=device)
    return drawn.to(like)
