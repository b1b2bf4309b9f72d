"""How things stood before something was tried, so that it can be tried again: random state, buffers, gradients."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gradwright.ground.torch_versions.modules import own_buffers
from gradwright.training.randomness import put_back, random_state


class Before:
    """Of a model. Memory: a copy of its buffers and of the random states; gradients are held, not copied."""

    def __init__(self, model: nn.Module) -> None:
        self._random = random_state()
        self._buffers = [
            (module, name, buffer, buffer.detach().clone())
            for module in model.modules()
            for name, buffer in module.named_buffers(recurse=False)
        ]
        self._gradients: list[tuple[Tensor, Tensor | None]] = [(one, one.grad) for one in model.parameters()]

    @torch.no_grad()
    def put_back(self, *, gradients: bool = True) -> None:
        put_back(self._random)
        for module, name, buffer, kept in self._buffers:
            if buffer.shape == kept.shape:
                buffer.copy_(kept)
                own_buffers(module)[name] = buffer
            else:  # it was resized in place
                own_buffers(module)[name] = kept
        if gradients:
            for parameter, gradient in self._gradients:
                parameter.grad = gradient
