import torch
from torch.autograd import Function


class Affine(Function):
    @staticmethod
    def forward(ctx, x, weight, shift):
        ctx.save_for_backward(x, weight)
        return x * weight + shift

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        return grad_output * weight, (grad_output * x).sum(0), grad_output.sum(0)


torch.manual_seed(0)
x = torch.randn(16, 4)
weight = torch.randn(4, requires_grad=True)
shift = torch.zeros(4, requires_grad=True)
optimizer = torch.optim.SGD([weight, shift], lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    loss = (Affine.apply(x, weight, shift) - 1).pow(2).mean()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
