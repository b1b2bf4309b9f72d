"""Gradients are counted as torch counts them."""

import pytest
import torch

from gradwright.checking import count_gradients


def returning(gradients):
    class Returning(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            return x * scale

        @staticmethod
        def backward(ctx, cotangent):
            return gradients(cotangent)

    return Returning


@pytest.mark.parametrize(
    ("gradients", "counted"),
    [
        (lambda g: (g, None), (2, 2)),
        (lambda g: g, (2, 1)),
        (lambda g: (g, None, None, None), (2, 2)),
        (lambda g: (g, None, None, g), (2, 4)),
        (lambda g: g.no_such_method(), None),
    ],
)
def test_gradients_are_counted_and_torch_agrees(gradients, counted):
    function = returning(gradients)
    assert count_gradients(function, (torch.ones(3), 2.0), (True, False)) == counted
    x = torch.ones(3, requires_grad=True)
    if counted is not None and counted[0] == counted[1]:
        function.apply(x, 2.0).sum().backward()
    else:
        with pytest.raises((RuntimeError, AttributeError)):
            function.apply(x, 2.0).sum().backward()
