"""Three interleaved spirals, told apart by a reversible network (Gomez et al. 2017, The Reversible Residual Network).

What a network saves for its backward grows with its depth. Here it doesn't: every block's input is computed again from
its output, so that only the last state is kept. The gradient is the same.

python examples/reversible_network/train.py
"""

import argparse
import math

import torch
from torch import nn
from torch.nn import functional as F

import gradwright as gw

POINTS, WIDTH = 600, 16


def spirals(generator):
    label = torch.arange(POINTS) % 3
    radius = torch.rand(POINTS, generator=generator).sqrt()
    angle = 7 * radius + 2 * math.pi / 3 * label + 0.15 * torch.randn(POINTS, generator=generator)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], 1), label


def small():
    """f or g of a block: it may be anything that keeps the shape, and it need not be invertible."""
    last = nn.Linear(WIDTH, WIDTH)
    nn.init.zeros_(last.weight)  # a block starts as the identity, so that any depth can be trained
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), last)


class Classifier(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.enter = nn.Linear(2, 2 * WIDTH)
        self.body = gw.ReversibleSequence(gw.ReversibleBlock(small(), small()) for _ in range(depth))
        self.leave = nn.Linear(2 * WIDTH, 3)

    def forward(self, points, keep=False):
        x1, x2 = self.enter(points).chunk(2, dim=1)
        if keep:  # the same network as plain autograd runs it
            for block in self.body.blocks:
                x1 = x1 + block.f(x2)
                x2 = x2 + block.g(x1)
        else:
            x1, x2 = self.body(x1, x2)
        return self.leave(torch.cat([x1, x2], dim=1))


def saved_kib(model, points, keep):
    """What autograd holds between forward and backward; without parameters, data and 0.5 KiB of samples per block."""
    held = {}
    ours = {tensor.untyped_storage().data_ptr() for tensor in (points, *model.parameters())}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in ours:
            held[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        _alive = model(points, keep)  # else memory would be used again, and counted once
    return sum(held.values()) / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--depth", type=int, default=20)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    points, label = spirals(generator)
    unseen, unseen_label = spirals(generator)

    print("saved for the backward, KiB")
    for depth in (5, 20, 80):
        model = Classifier(depth)
        plain, reversible = saved_kib(model, points, keep=True), saved_kib(model, points, keep=False)
        print(f"  depth {depth:3}: plain {plain:7.0f}, reversible {reversible:4.0f}")

    model = Classifier(args.depth)
    report = gw.check(model, points[:4], level="quick")
    print(f"gw.check: {'right' if report.ok else 'WRONG'}")

    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(args.steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(points), label)
        loss.backward()
        optimizer.step()
        if step % 50 == 49:
            print(f"step {step + 1}: loss {loss.item():.3f}")
    with torch.no_grad():
        right = (model(unseen).argmax(1) == unseen_label).double().mean().item()
    worst = max(model.body.inverse_errors(*model.enter(points).chunk(2, dim=1)))
    print(f"accuracy on unseen points: {right:.3f}; activations were reconstructed to {worst:.0e} of their size")


if __name__ == "__main__":
    main()
