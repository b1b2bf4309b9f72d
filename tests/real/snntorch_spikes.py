"""A spiking network (snntorch): surrogate gradients at the spikes, and a loss on the time of the first spike."""

import argparse

import snntorch
import torch
from snntorch import functional, surrogate
from torch import nn


class Spiking(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(12, 20)
        self.hidden = snntorch.Leaky(beta=0.9, spike_grad=surrogate.fast_sigmoid(slope=25))
        self.second = nn.Linear(20, 4)
        self.output = snntorch.Leaky(beta=0.9, spike_grad=surrogate.atan(alpha=2.0))

    def forward(self, x, ticks=15):
        hidden, output = self.hidden.reset_mem(), self.output.reset_mem()
        record = []
        for _ in range(ticks):
            spikes, hidden = self.hidden(self.first(x), hidden)
            spikes, output = self.output(self.second(spikes), output)
            record.append(spikes)
        return torch.stack(record)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)  # the first is slow: FirstSpike's loop is to stand out
    args = parser.parse_args()

    torch.manual_seed(0)
    x = 2 * torch.randn(64, 12)
    labels = torch.randint(4, (64,))
    network = Spiking()
    criterion = functional.ce_temporal_loss()
    optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
    for step in range(args.steps):
        optimizer.zero_grad()
        loss = criterion(network(x), labels)
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.5f}")


if __name__ == "__main__":
    main()
