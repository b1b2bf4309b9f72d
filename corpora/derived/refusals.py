"""Forwards that no backward can be written for from one trace, and the word each should meet."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from corpora.derived.forward import Refusal, real


def branch_on_a_value(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return x * 2
    return x * 3


def loop_until_small(x: Tensor) -> Tensor:
    while x.norm() > 1:
        x = x / 2
    return x


def through_numpy(x: Tensor) -> Tensor:
    return torch.from_numpy(np.sin(x.detach().numpy()))


def through_an_item(x: Tensor) -> Tensor:
    return x * x.max().item()


def through_a_float(x: Tensor) -> Tensor:
    return x * float(x[0])


def through_a_list(x: Tensor) -> Tensor:
    return torch.tensor([value**2 for value in x.tolist()])


class NumpyExp(torch.autograd.Function):
    """A custom Function whose forward leaves torch."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = torch.from_numpy(np.exp(x.detach().numpy()))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return grad_output * y


def through_a_numpy_function(x: Tensor) -> Tensor:
    return NumpyExp.apply(x) * x


def as_text(x: Tensor) -> str:
    return f"the mean is {x.mean()}"


def nothing_returned(x: Tensor) -> None:
    x.sin()


def selected_by_value(x: Tensor) -> Tensor:
    return x[x > 0].pow(2)


def positions_returned(x: Tensor) -> Tensor:
    return torch.nonzero(x > 0)


def cut_from_its_input(x: Tensor) -> Tensor:
    return x.detach() ** 2


def assertion_on_a_value(x: Tensor) -> Tensor:
    assert x.abs().max() < 100
    return x.exp()


def index_from_a_value(x: Tensor) -> Tensor:
    return x[int(x.argmax())] ** 2


def _vector(elements: int) -> tuple[Tensor]:
    return (real(elements),)


REFUSALS = (
    Refusal(branch_on_a_value, _vector, r"value"),
    Refusal(loop_until_small, _vector, r"value"),
    Refusal(assertion_on_a_value, _vector, r"value"),
    Refusal(index_from_a_value, _vector, r"value"),
    Refusal(through_numpy, _vector, r"(?i)numpy"),
    Refusal(through_a_numpy_function, _vector, r"(?i)numpy"),
    Refusal(through_an_item, _vector, r"item"),
    Refusal(through_a_float, _vector, r"float|item"),
    Refusal(through_a_list, _vector, r"tolist"),
    Refusal(as_text, _vector, r"str"),
    Refusal(nothing_returned, _vector, r"None"),
    Refusal(selected_by_value, _vector, r"shape|size"),
    Refusal(positions_returned, _vector, r"shape|size|depends"),
    Refusal(cut_from_its_input, _vector, r"depend|gradient"),
)
