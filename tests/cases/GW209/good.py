"""A ReLU whose backward flattens its cotangent with reshape."""
import torch


class Relu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return (grad_output.reshape(-1) * (x > 0).reshape(-1)).reshape(x.shape)


torch.manual_seed(0)
model = torch.nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(16, 8), torch.randn(16, 4)
for step in range(5):
    optimizer.zero_grad()
    loss = (Relu.apply(model(x)) - y).pow(2).mean()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
