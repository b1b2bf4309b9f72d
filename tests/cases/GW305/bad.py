"""A gated layer on data: the gradient with respect to the data is computed and thrown away."""
import torch


class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        h = x @ weight
        ctx.save_for_backward(x, weight)
        return torch.tanh(h) * torch.sigmoid(h) * h

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        h = x @ weight
        t, s = torch.tanh(h), torch.sigmoid(h)
        grad_h = grad_output * (t * s + h * (s * (1 - t * t) + t * s * (1 - s)))
        grad_x = grad_h @ weight.t()
        grad_weight = x.t() @ grad_h
        return grad_x, grad_weight


torch.manual_seed(0)
x = torch.randn(128, 1024)
weight = torch.randn(1024, 256, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=1e-5)
for step in range(8):
    loss = Gated.apply(x, weight).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.2f}")
