"""Two coupled springs whose stiffness and coupling are learnt from a recording, through the adjoint of the simulation.

The law is physics, stepped by leapfrog, which conserves energy; only its three constants are unknown. The gradient of
250 steps comes from integrate(..., inverse=...): steps are undone instead of kept.

python examples/learnt_spring/train.py
"""

import torch
from torch import nn

import gradwright as gw

DT, STEPS = 0.1, 250
SEEN = list(range(0, STEPS + 1, 10))  # the recording holds every 10th state


class Springs(nn.Module):
    """x₁'' = -k₁ x₁ - c (x₁ - x₂), x₂'' = -k₂ x₂ - c (x₂ - x₁); unit masses, positive constants."""

    def __init__(self, k1, k2, c):
        super().__init__()
        self.logs = nn.Parameter(torch.tensor([k1, k2, c], dtype=torch.float64).log())

    def force(self, x):
        k1, k2, c = self.logs.exp()
        stretch = x[0] - x[1]
        return torch.stack([-k1 * x[0] - c * stretch, -k2 * x[1] + c * stretch])

    def energy(self, x, v):
        k1, k2, c = self.logs.exp()
        return 0.5 * ((v**2).sum(-1) + k1 * x[..., 0] ** 2 + k2 * x[..., 1] ** 2 + c * (x[..., 0] - x[..., 1]) ** 2)

    def forward(self, state):
        """Leapfrog: drift, kick, drift."""
        x, v = state
        x = x + 0.5 * DT * v
        v = v + DT * self.force(x)
        return x + 0.5 * DT * v, v

    def back(self, state):
        """The step undone: leapfrog is its own inverse once the velocity is turned round."""
        x, v = self((state[0], -state[1]))
        return x, -v


def trajectory(springs, steps, outputs):
    start = torch.tensor([1.0, 0.0], dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    return gw.integrate(springs, start, steps=steps, outputs=outputs, inverse=springs.back)


def main():
    torch.manual_seed(0)
    true, springs = Springs(1.0, 1.4, 0.3), Springs(0.8, 1.0, 0.5)
    with torch.no_grad():
        recording = trajectory(true, STEPS, SEEN)[0]
        recording = recording + 0.01 * torch.randn_like(recording)

    # First a short piece: where phases are many turns off, the gradient of the whole is no guide.
    for seen in (8, len(SEEN)):
        optimizer = torch.optim.LBFGS(springs.parameters(), max_iter=8, line_search_fn="strong_wolfe")

        def loss():
            optimizer.zero_grad()
            x, _ = trajectory(springs, SEEN[seen - 1], SEEN[:seen])
            error = (x - recording[:seen]).square().mean()
            error.backward()
            return error

        optimizer.step(loss)
        print(f"{SEEN[seen - 1]:4d} steps   error {loss().item() ** 0.5:.4f}   (noise 0.0100)")

    for name, found, wanted in zip(("k1", "k2", "c"), springs.logs.exp(), true.logs.exp(), strict=True):
        print(f"{name:3} learnt {found.item():.4f}   true {wanted.item():.4f}")
    with torch.no_grad():
        energy = springs.energy(*trajectory(springs, 10 * STEPS, "all"))
    drift = (energy / energy[0] - 1).abs().max().item()
    late = (energy[-STEPS:] / energy[0] - 1).abs().max().item()
    print(f"energy off by at most {drift:.1e} in {10 * STEPS} steps, {late:.1e} in the last {STEPS}: it doesn't drift")


if __name__ == "__main__":
    main()
