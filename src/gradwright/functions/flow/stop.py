"""Let no gradient through."""

from __future__ import annotations

from typing import TypeVar, cast

from torch import Tensor, nn

from gradwright.functions.surrogate import surrogate
from gradwright.ground.torch_versions import trees as pytree

__all__ = ["StopGradient", "stop_gradient"]

REASON = "the identity whose gradient is held back, on purpose"

T = TypeVar("T")


@surrogate(reason=REASON)
def stop_gradient(x: T) -> T:
    """``x``, through which no gradient and no tangent goes. Not a derivative.

    ``x``: a tensor, or a tuple, list or dict of them (the state of an LSTM between two windows); what is no tensor
    stays as it is. It is torch's ``detach``: the result shares the memory of ``x``, and a change in place of one is
    seen by the other, and refused by autograd where a backward needs the old numbers.

    Shapes, dtype, device: those of ``x``. Cost: 1 us a tensor, no copy. Raises: nothing of its own.
    Source: truncated backpropagation through time, Williams, Peng 1990; SimSiam, Chen, He 2021, equation 3.

    >>> import torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> (x * stop_gradient(x)).backward()
    >>> x.grad
    tensor(3.)
    """
    if isinstance(x, Tensor):
        return cast(T, x.detach())
    return cast(T, pytree.tree_map_only(Tensor, Tensor.detach, x))


@surrogate(reason=REASON)
class StopGradient(nn.Module):
    """``stop_gradient`` as a layer.

    >>> StopGradient()
    StopGradient()
    """

    def forward(self, x: T) -> T:
        return stop_gradient(x)
