"""POT 0.8.0: losses of the PyTorch backend."""

from typing import Any

import torch

from public_faults.fault import Fault, Load


def call(load: Load) -> tuple[Any, tuple[Any, ...]]:
    load("scipy", package="scipy==1.17.1", bare=False)
    function = load("ot.backend").TorchBackend().ValFunction

    def squared_norm(x: torch.Tensor) -> torch.Tensor:
        """As emd2 and its kin use it: the value, and the gradient that the solver found beside it."""
        return function.apply((x.detach() ** 2).sum(), (2 * x.detach(),), x)

    return squared_norm, (torch.randn(3, 4),)


FAULT = Fault(
    before="pot==0.8.0",
    after="pot==0.8.1.0",
    function="ValFunction (TorchBackend.set_gradients)",
    what="the backward returns the stored gradients and never looks at grad_output",
    source="the two versions' ot/backend.py",
    code="GW101",
    cause="missing grad_output",
    call=call,
)
