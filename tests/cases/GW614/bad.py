import torch

torch.manual_seed(0)
x = torch.randn(12, 4)
w = torch.randn(4, 4, requires_grad=True)

activations = torch.sigmoid(x @ w)
activations += 0.1 * x
loss = activations.pow(2).sum()
loss.backward()
print("gradient", w.grad.norm().item())
