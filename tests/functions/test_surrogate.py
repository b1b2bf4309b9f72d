"""A surrogate is declared with its reason, or not at all."""

import pytest
import torch

from gradwright.errors import UsageError
from gradwright.functions import surrogate
from gradwright.functions.surrogate import surrogate_reason


class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent


def test_the_class_comes_back_as_it_is_with_its_reason():
    fresh = type("Fresh", (Round,), {})
    assert surrogate(reason=" straight-through ")(fresh) is fresh
    assert surrogate_reason(fresh) == "straight-through"
    assert surrogate_reason(Round) is None
    x = torch.tensor([0.4], requires_grad=True)
    fresh.apply(x).backward()  # type: ignore[attr-defined]
    assert x.grad.tolist() == [1.0]


def test_a_plain_callable_can_be_declared():
    @surrogate(reason="hard threshold")
    def spike(x):
        return x > 0

    assert surrogate_reason(spike) == "hard threshold"


@pytest.mark.parametrize("misuse", [
    lambda: surrogate(Round), lambda: surrogate(), lambda: surrogate(reason=""), lambda: surrogate(reason="  "),
    lambda: surrogate("why"), lambda: surrogate(reason="why")(3),  # type: ignore[type-var]
])  # fmt: skip
def test_misuse_is_told_where_it_is_written(misuse):
    with pytest.raises(UsageError):
        misuse()
