import torch
from torch.autograd import Function


class Square(Function):
    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 2 * x * grad_output


def energy(position):
    return Square.apply(position).sum()


torch.manual_seed(0)
position = torch.randn(8)
force = torch.func.grad(energy)(position)
print("force", force.norm().item())
