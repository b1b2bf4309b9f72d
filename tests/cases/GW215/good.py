"""A square that can be trained through."""
import torch


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 2 * x * grad_output


torch.manual_seed(0)
model = torch.nn.Linear(8, 4)
x = torch.randn(16, 8)
for step in range(5):
    score = Square.apply(model(x)).mean()
print(f"score {score.item():.4f}")
