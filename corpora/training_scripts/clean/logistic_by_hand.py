"""Logistic regression with nothing but tensors: the loss, the update and the clearing of gradients by hand."""

import torch

torch.manual_seed(1)

n, d = 200, 5
x = torch.randn(n, d)
true_w = torch.tensor([1.5, -2.0, 0.0, 0.7, 3.0])
y = (x @ true_w + 0.3 + 0.5 * torch.randn(n) > 0).float()

w = torch.zeros(d, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
lr = 0.5

for step in range(60):
    logits = x @ w + b
    # log(1 + exp(-z)) without overflow
    loss = (torch.clamp(logits, min=0) - logits * y + torch.log1p(torch.exp(-logits.abs()))).mean()
    loss.backward()

    with torch.no_grad():
        w -= lr * w.grad
        b -= lr * b.grad
        w.grad.zero_()
        b.grad.zero_()

    if step % 20 == 0:
        accuracy = ((x @ w + b > 0).float() == y).float().mean().item()
        print(f"step {step}: loss {loss.item():.4f}, accuracy {accuracy:.3f}")

print("w =", [round(value, 2) for value in w.tolist()])
