# torch-struct 0.5, _SimplexProject: the gradient w belongs to <x, w> - |w|²/2; the value returned subtracts |w|.
import torch


def project(x):
    s = x.sort(descending=True).values
    k = ((1 + torch.arange(1, 4) * s) > s.cumsum(0)).sum()
    return (x - (s[:k].sum() - 1) / k).clamp(min=0)


x = torch.tensor([0.3, 0.1, -0.4], dtype=torch.float64)


def value(x):
    return (x * project(x)).sum() - project(x).norm(p=2)


slope = [(value(x + 1e-6 * e) - value(x - 1e-6 * e)).item() / 2e-6 for e in torch.eye(3, dtype=torch.float64)]
print("published", project(x).tolist(), "differences of the value", slope)
