"""A contractive autoencoder (Rifai et al. 2011) of one sigmoid layer, on images of 28 x 28.

``loop``: a backward for each hidden unit, as public code does it that takes the Jacobian from autograd.
``by hand``: the paper's form for this one encoder, (h (1 - h))^2 times the squared norms of the weight's rows.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from gradwright.penalties import contractive_penalty
from steps.task import Task


def contractive(hidden: int, device: torch.device) -> Task:
    torch.manual_seed(0)
    images = torch.rand(100, 784, device=device)

    def loop(model: nn.Module) -> Tensor:
        x, total = images.clone().requires_grad_(), torch.zeros(len(images), device=device)
        h, out = run(model, x)
        for unit in range(h.shape[1]):
            (row,) = torch.autograd.grad(h[:, unit].sum(), x, retain_graph=True, create_graph=True)
            total = total + row.square().sum(1)
        return loss(out, total.mean())

    def by_hand(model: nn.Module) -> Tensor:
        h, out = run(model, images)
        rows = model.get_parameter("0.weight").square().sum(1)
        return loss(out, ((h * (1 - h)).square() @ rows).mean())

    def ours(model: nn.Module) -> Tensor:
        x = images.clone().requires_grad_()
        h, out = run(model, x)
        return loss(out, contractive_penalty(h, wrt=x))

    def run(model: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
        encode, bend, decode = model.children()
        h: Tensor = bend(encode(x))
        return h, decode(h)

    def loss(out: Tensor, penalty: Tensor) -> Tensor:
        return nn.functional.mse_loss(out, images) + 1e-4 * penalty

    model = nn.Sequential(nn.Linear(784, hidden), nn.Sigmoid(), nn.Linear(hidden, 784)).to(device)
    ways: dict[str, Callable[[nn.Module], Tensor]] = {"loop": loop, "by hand": by_hand, "ours": ours}
    return Task(f"contractive autoencoder, 784-{hidden}-784, B=100", model, ways, ("ours",))
