"""A few parameters of an optimizer, by whose gradients one sees what reached it."""

from __future__ import annotations

import weakref
from itertools import islice

import torch
from torch import Tensor
from torch.optim import Optimizer

from gradwright.ground.torch_versions.tensors import version_of

_SAMPLE, _LOOKED_AT, _TRIES = 4, 1024, 32
_VALUES = 16  # of each gradient in the sample

State = tuple[tuple[int, int] | None, ...]


class GradientSample:
    """Held weakly. The state is that of ``.grad``: which object, in which version; None where there is none.

    A backward that adds in place raises the version, one that makes a new tensor changes the object: either is seen
    without a look at the values. Cost: 1 microsecond.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = weakref.ref(optimizer)
        self._chosen: tuple[weakref.ref[Tensor], ...] = ()
        self._tries = 0

    def __bool__(self) -> bool:
        return bool(self._chosen)

    def state(self) -> State:
        return tuple([_state(parameter()) for parameter in self._chosen])

    def choose(self) -> bool:
        """Take parameters that have gradients now, if none is chosen yet or all of those have lost theirs."""
        self._tries += 1
        if self._tries > _TRIES and self._tries & (self._tries - 1):
            return False
        having = [parameter for parameter in islice(self.parameters(), _LOOKED_AT) if parameter.grad is not None]
        if not having:
            return False
        last = len(having) - 1
        places = sorted({round(last * number / (_SAMPLE - 1)) for number in range(_SAMPLE)})
        self._chosen = tuple(weakref.ref(having[place]) for place in places)
        return True

    def on_cpu(self) -> bool:
        grads = self._grads()
        plain = (grad.layout is torch.strided and not grad.is_complex() for grad in grads)
        return bool(grads) and all(plain) and all(grad.device.type == "cpu" for grad in grads)

    def values(self) -> Tensor:
        """Some values of each gradient, copied; a nan, which is equal to nothing, as 0. Cost: 10 microseconds."""
        some = [_some_of(grad.detach()).double() for grad in self._grads()]
        return torch.cat(some or [torch.zeros(0)]).nan_to_num()

    def _grads(self) -> list[Tensor]:
        alive = (parameter() for parameter in self._chosen)
        return [one.grad for one in alive if one is not None and one.grad is not None]

    def parameters(self) -> list[Tensor]:
        optimizer = self._optimizer()
        return [p for group in optimizer.param_groups for p in group["params"]] if optimizer is not None else []

    def nothing_to_step_on(self) -> bool:
        """Whether every gradient is missing or, where that can be seen without waiting for a device, zero.

        Cost: a pass over the gradients, if there are any.
        """
        for parameter in self.parameters():
            grad = parameter.grad
            if grad is None or grad.device.type != "cpu":
                continue
            if grad.is_sparse or bool(grad.detach().any()):
                return False
        return True

    def without_gradients(self) -> bool:
        return all(parameter.grad is None for parameter in self.parameters())


def _some_of(grad: Tensor) -> Tensor:
    while grad.dim() > 1:
        grad = grad[0]
    return grad.reshape(-1)[:_VALUES]


def _state(parameter: Tensor | None) -> tuple[int, int] | None:
    grad = parameter.grad if parameter is not None else None
    if grad is None:
        return None
    return id(grad), 0 if grad.is_inference() else version_of(grad)
