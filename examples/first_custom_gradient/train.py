"""A gradient of your own, from its first line to a trained network: forward, backward, a check, a layer, training.

The backward's signature says what is kept: it names `x`, so `x` is saved, and nothing else."""

import torch

import gradwright as gw


def cube(x):
    return x**3


def cube_backward(arriving, x):
    return 3 * x**2 * arriving


own_cube = gw.custom_gradient(cube, cube_backward)
torch.manual_seed(0)
print(gw.check(own_cube, torch.randn(4, 3)))

x = torch.randn(256, 2)
y = (x[:, :1] + x[:, 1:]) ** 3
linear = torch.nn.Linear(2, 1)
optimizer = torch.optim.Adam(linear.parameters(), lr=0.05)
for step in range(151):
    loss = (own_cube(linear(x)) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step:3d}   loss {loss.item():.6f}")
