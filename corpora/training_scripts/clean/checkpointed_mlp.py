"""A deep residual MLP whose blocks are checkpointed: recomputed in the backward instead of kept."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class ResidualBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.silu(self.up(self.norm(x))))


class DeepNet(nn.Module):
    def __init__(self, width=32, depth=8):
        super().__init__()
        self.inlet = nn.Linear(10, width)
        self.blocks = nn.ModuleList([ResidualBlock(width) for _ in range(depth)])
        self.outlet = nn.Linear(width, 1)

    def forward(self, x):
        x = self.inlet(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.outlet(x)


def main():
    torch.manual_seed(17)
    inputs = torch.randn(256, 10)
    targets = (inputs[:, :5].prod(dim=1, keepdim=True)).tanh() + inputs[:, 5:6]
    net = DeepNet()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    loss_fn = nn.SmoothL1Loss()
    for step in range(30):
        rows = torch.randint(256, (64,))
        optimizer.zero_grad()
        loss = loss_fn(net(inputs[rows]), targets[rows])
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
