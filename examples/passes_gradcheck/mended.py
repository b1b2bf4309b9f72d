"""Nothing wrong: `mean` divides by the number of elements, and so does its gradient."""

import torch


class Brier(torch.autograd.Function):
    @staticmethod
    def forward(ctx, p, y):
        ctx.save_for_backward(p, y)
        return (p - y).square().mean()

    @staticmethod
    def backward(ctx, grad_output):
        p, y = ctx.saved_tensors
        return grad_output * 2 * (p - y) / p.numel(), None


torch.manual_seed(0)
p = torch.rand(8, 1, dtype=torch.float64, requires_grad=True)
assert torch.autograd.gradcheck(Brier.apply, (p, torch.ones_like(p)))  # any shape does

model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Softmax(dim=1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(20):
    x = torch.randn(32, 4)
    y = torch.nn.functional.one_hot(x[:, :3].argmax(dim=1), 3).float()
    loss = Brier.apply(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
