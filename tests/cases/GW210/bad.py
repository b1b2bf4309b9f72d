"""A matrix product that mixes up which of its inputs needs a gradient."""
import torch


class MatMul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, grad_output):
        x, w = ctx.saved_tensors
        grad_x = grad_output @ w.t() if ctx.needs_input_grad[1] else None
        grad_w = x.t() @ grad_output if ctx.needs_input_grad[0] else None
        return grad_x, grad_w


torch.manual_seed(0)
model = torch.nn.Linear(8, 4)
weight = torch.randn(4, 4, requires_grad=True)
optimizer = torch.optim.SGD([*model.parameters(), weight], lr=0.01)
x, y = torch.randn(16, 8), torch.randn(16, 4)
for step in range(5):
    optimizer.zero_grad()
    loss = (MatMul.apply(model(x), weight) - y).pow(2).mean()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
