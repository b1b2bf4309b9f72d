"""A Function beside plain autograd of its own forward."""

import torch

from gradwright.checking import plain_forward, plain_twin, saved_bytes


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, cotangent):
        return 2 * ctx.saved_tensors[0] * cotangent


class Parked(Square):
    @staticmethod
    def forward(ctx, x):
        ctx.extra, ctx.more = x + 1, [x + 2]
        return Square.forward(ctx, x)


class Half(Square):
    @staticmethod
    def backward(ctx, cotangent):
        return ctx.saved_tensors[0] * cotangent


class Unseen(Square):
    @staticmethod
    def forward(ctx, x):
        with torch.no_grad():
            return Square.forward(ctx, x)


def test_the_twin_of_a_needless_function_has_the_same_gradient():
    x = torch.randn(100)
    twin = plain_twin(Square, [x], [True])
    assert (twin.same_gradient, twin.reason) == (True, "")
    twin.function_step()
    twin.plain_step()
    assert saved_bytes(twin.function_forward) == saved_bytes(twin.plain_forward) == 400
    assert not x.requires_grad


def test_tensors_parked_on_ctx_count_as_saved():
    twin = plain_twin(Parked, [torch.randn(100)], [True])
    assert saved_bytes(twin.function_forward) == 1200
    assert saved_bytes(twin.plain_forward) == 400


def test_a_gradient_that_differs_or_is_not_seen_is_not_the_same():
    assert "differ" in plain_twin(Half, [torch.randn(3)], [True]).reason
    assert not plain_twin(Unseen, [torch.randn(3)], [True]).same_gradient
    assert not plain_twin(Square, [torch.arange(3)], [True]).same_gradient


def test_the_plain_forward_is_seen_by_autograd():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (found,) = torch.autograd.grad(plain_forward(Half, [True])(x).sum(), x)
    assert found.tolist() == [2.0, 4.0]
