# lxt 2.1, mean_fn.backward: the relevance has the input's shape, and is squeezed along dim once more.
import torch


class Published(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.mean(-1)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return (x * g.unsqueeze(-1) / x.sum(-1, keepdim=True)).squeeze(-1)


try:
    Published.apply(torch.randn(3, 1, requires_grad=True)).sum().backward()
except RuntimeError as error:
    print(error)
