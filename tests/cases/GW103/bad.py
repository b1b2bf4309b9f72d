"""sin(x) / x, whose derivative at 0 was forgotten."""
import torch


class Sinc(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x == 0, torch.ones_like(x), x.sin() / x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * (x * x.cos() - x.sin()) / x**2


torch.manual_seed(0)
model = torch.nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(16, 8), torch.randn(16, 4)
for step in range(5):
    optimizer.zero_grad()
    loss = (Sinc.apply(model(x)) - y).pow(2).mean()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
