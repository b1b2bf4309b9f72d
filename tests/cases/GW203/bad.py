import torch
from torch.autograd import Function


class Project(Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        return grad_output @ weight.t(), grad_output.t() @ x


torch.manual_seed(0)
inputs = torch.randn(32, 5)
targets = torch.randn(32, 3)
weight = torch.randn(5, 3, requires_grad=True)
for step in range(3):
    loss = (Project.apply(inputs, weight) - targets).pow(2).mean()
    loss.backward()
    with torch.no_grad():
        weight -= 0.1 * weight.grad
        weight.grad = None
    print(step, loss.item())
