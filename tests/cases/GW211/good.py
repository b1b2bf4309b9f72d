"""Sine and cosine at once; the backward asks which of them were used."""
import torch


class SinCos(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return x.sin(), x.cos()

    @staticmethod
    def backward(ctx, grad_sin, grad_cos):
        (x,) = ctx.saved_tensors
        grad_x = torch.zeros_like(x)
        if grad_sin is not None:
            grad_x = grad_x + grad_sin * x.cos()
        if grad_cos is not None:
            grad_x = grad_x - grad_cos * x.sin()
        return grad_x


torch.manual_seed(0)
model = torch.nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(16, 8), torch.randn(16, 4)
for step in range(5):
    optimizer.zero_grad()
    loss = (sum(SinCos.apply(model(x))) - y).pow(2).mean()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
