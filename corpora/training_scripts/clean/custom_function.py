"""Two custom autograd Functions in a training loop: a swish and a scaled linear map."""

import torch
from torch import nn


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return grad_output * (s * (1 + x * (1 - s)))


class ScaledLinear(torch.autograd.Function):
    """y = alpha * x @ w.T"""

    @staticmethod
    def forward(ctx, x, w, alpha):
        ctx.save_for_backward(x, w)
        ctx.alpha = alpha
        return alpha * (x @ w.t())

    @staticmethod
    def backward(ctx, grad_output):
        x, w = ctx.saved_tensors
        grad_x = grad_w = None
        if ctx.needs_input_grad[0]:
            grad_x = ctx.alpha * (grad_output @ w)
        if ctx.needs_input_grad[1]:
            grad_w = ctx.alpha * (grad_output.t() @ x)
        return grad_x, grad_w, None


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(6, 32)
        self.weight = nn.Parameter(torch.randn(32, 32) / 32**0.5)
        self.fc2 = nn.Linear(32, 1)

    def forward(self, x):
        h = Swish.apply(self.fc1(x))
        h = Swish.apply(ScaledLinear.apply(h, self.weight, 0.7))
        return self.fc2(h)


torch.manual_seed(35)
x = torch.randn(192, 6)
y = x[:, :1] * x[:, 1:2] + x[:, 2:3].abs()
net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
for step in range(40):
    rows = torch.randint(192, (48,))
    loss = nn.functional.mse_loss(net(x[rows]), y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"{step}: {loss.item():.4f}")
