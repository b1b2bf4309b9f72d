import torch
from torch.autograd import Function


class Scale(Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        return x * scale

    @staticmethod
    def backward(ctx, grad_output):
        x, scale = ctx.saved_tensors
        return grad_output * scale, (grad_output * x).sum()


torch.manual_seed(0)
inputs, targets = torch.randn(16, 4), torch.randn(16, 4)
scale = torch.tensor(0.5, requires_grad=True)
optimizer = torch.optim.SGD([scale], lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    loss = (Scale.apply(inputs, scale) - targets).pow(2).mean()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
