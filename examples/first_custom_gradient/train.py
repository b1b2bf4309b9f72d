"""A gradient of your own, from its first line to a trained network: forward, backward, a check, a layer, training.

The backward's signature says what is kept: it names `x`, so `x` is saved, and nothing else."""

import torch

import gradwright as gw


def my_square(x):
    return x**2


def my_square_backward(grad_output, x):
    return grad_output * 2 * x


square = gw.custom_gradient(my_square, my_square_backward)
torch.manual_seed(0)
print(gw.check(square, torch.randn(4, 3)))

x = torch.randn(256, 2)
y = (x[:, :1] + x[:, 1:]) ** 2
linear = torch.nn.Linear(2, 1)
optimizer = torch.optim.Adam(linear.parameters(), lr=0.05)
for step in range(151):
    loss = (square(linear(x)) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step:3d}   loss {loss.item():.6f}")
