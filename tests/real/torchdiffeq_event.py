"""A ball is thrown; its speed is fitted so that it lands after one second. Gradients pass through the event's time."""

import argparse

import torch
from torch import nn
from torchdiffeq import odeint_event


class Flight(nn.Module):
    def __init__(self):
        super().__init__()
        self.gravity = nn.Parameter(torch.tensor(9.8, dtype=torch.float64))

    def forward(self, t, state):
        height, speed = state
        return speed, -self.gravity * torch.ones_like(speed)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=15)
    args = parser.parse_args()

    speed = nn.Parameter(torch.tensor([3.0], dtype=torch.float64))
    flight = Flight()
    optimizer = torch.optim.SGD([speed, flight.gravity], lr=0.5)
    start = torch.tensor([1.0], dtype=torch.float64)
    begin = torch.tensor(0.0, dtype=torch.float64)
    for step in range(args.steps):
        optimizer.zero_grad()
        landed, _ = odeint_event(
            flight, (start, speed), begin, event_fn=lambda t, state: state[0], method="dopri5", atol=1e-8, rtol=1e-8
        )
        loss = (landed - 1.0) ** 2
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(f"step {step}: lands after {landed.item():.5f} s")


if __name__ == "__main__":
    main()
