import torch
from torch.autograd import Function


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad_output


torch.manual_seed(0)
x = torch.randn(6, requires_grad=True)
loss = Cube.apply(x).sum()
loss.backward()
print(x.grad)
