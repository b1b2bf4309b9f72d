# entmax 1.3, BudgetBisectFunction.backward (root_finding.py:253): an axis of size 1 is squeezed that sum has removed.
import torch

torch.manual_seed(0)
y, g = torch.rand(4, 1, 5, dtype=torch.float64) * 0.8 + 0.1, torch.randn(4, 1, 5, dtype=torch.float64)
active = (y > 0) & (y < 1)
size = active.sum(-1)  # (4, 1)
published = g - ((g * active).sum(-1) / size.squeeze(-1)).unsqueeze(-1)  # (4, 1) / (4,): the result is (4, 4, 5)
right = g - ((g * active).sum(-1) / size).unsqueeze(-1)
print(
    "shape",
    tuple(published.shape),
    "ratio after the engine's sum",
    (published.sum(1, keepdim=True) / right).mean().item(),
)
