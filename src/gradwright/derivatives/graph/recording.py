"""Whether autograd records what is done here: as the call needs it, whatever mode the caller is in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from gradwright.errors import UsageError


@contextmanager
def recording(graph: bool = True) -> Iterator[None]:
    """What is computed inside is recorded, or not; and made of ordinary tensors, under ``inference_mode`` as well.

    A graph made before is differentiated: under ``torch.no_grad()`` the steps between two backwards (a reshape, a sum)
    would be lost from it, and the second derivatives that go through them would be zeros, without an error.

    >>> with torch.no_grad(), recording():
    ...     torch.ones(1, requires_grad=True).exp().requires_grad
    True
    """
    with torch.inference_mode(False), torch.set_grad_enabled(graph):
        yield


def refuse_inference(create_graph: bool) -> None:
    """Raises: UsageError where a result is to be differentiated by a caller who records nothing, and can't."""
    if create_graph and torch.is_inference_mode_enabled():
        raise UsageError(
            "create_graph=True under torch.inference_mode(), which records nothing, so the result could not be "
            "differentiated: leave the inference mode for this call"
        )
