"""A damped oscillation fitted with LBFGS: a closure, strong Wolfe line search."""

import torch

torch.manual_seed(16)
t = torch.linspace(0, 4, 80)
observed = 1.3 * torch.exp(-0.5 * t) * torch.cos(3.1 * t + 0.4) + 0.02 * torch.randn(80)


class DampedOscillation(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.amplitude = torch.nn.Parameter(torch.tensor(1.0))
        self.log_rate = torch.nn.Parameter(torch.tensor(-1.0))
        self.frequency = torch.nn.Parameter(torch.tensor(2.8))
        self.phase = torch.nn.Parameter(torch.tensor(0.0))

    def forward(self, t):
        envelope = self.amplitude * torch.exp(-self.log_rate.exp() * t)
        return envelope * torch.cos(self.frequency * t + self.phase)


model = DampedOscillation()
optimizer = torch.optim.LBFGS(model.parameters(), lr=1.0, max_iter=8, history_size=6, line_search_fn="strong_wolfe")

for step in range(6):

    def closure():
        optimizer.zero_grad()
        residual = model(t) - observed
        loss = residual.pow(2).mean()
        loss.backward()
        return loss

    loss = optimizer.step(closure)
    print(f"step {step}: loss {loss.item():.6f}")

print({name: round(p.item(), 3) for name, p in model.named_parameters()})
