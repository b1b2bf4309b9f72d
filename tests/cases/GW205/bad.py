"""A custom penalty whose value is re-wrapped on its way into the loss, so that its backward never runs."""
import torch


class Penalty(torch.autograd.Function):
    @staticmethod
    def forward(ctx, w):
        ctx.save_for_backward(w)
        return w.pow(4).sum()

    @staticmethod
    def backward(ctx, grad_output):
        (w,) = ctx.saved_tensors
        return 4 * grad_output * w.pow(3)


torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x, y = torch.randn(32, 4), torch.randn(32, 1)
for step in range(6):
    optimizer.zero_grad()
    penalty = Penalty.apply(model.weight)
    loss = (model(x) - y).pow(2).mean() + 0.1 * torch.tensor(penalty.item())
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
