# snntorch 1.0.0, LeakySpikeOperator: two inputs, one gradient.
import torch


class Published(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input_, slope):
        ctx.slope = slope
        return (input_ > 0).float()

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * ctx.slope


try:
    Published.apply(torch.randn(3, requires_grad=True), 0.1).sum().backward()
except RuntimeError as error:
    print(error)
