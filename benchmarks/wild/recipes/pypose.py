"""pypose 0.9.5: Lie groups, whose gradients are those of the tangent space, padded with a zero, on purpose."""

from collections.abc import Iterator

import torch

from wild.case import SAVED, Case, case
from wild.loading import load

REAL = {"GW106": SAVED}


def cases() -> Iterator[Case]:
    module = load("pypose.lietensor.operation", "pypose", bare=False)
    groups = {"SO3": (3, 4), "SE3": (6, 7), "RxSO3": (4, 5), "Sim3": (7, 8)}
    meant = (
        "the gradient is that of the tangent space at the point (a left perturbation), padded to the embedding's size"
    )
    for group, (tangent, _) in groups.items():
        algebra = group[:-1].lower() + group[-1]
        exp = getattr(module, f"{algebra}_Exp")
        a, b = (0.5 * torch.randn(3, tangent) for _ in range(2))
        x, y = exp.apply(a), exp.apply(b)
        yield case(exp, a, truth="surrogate", why=meant)
        yield case(getattr(module, f"{group}_Log"), x, truth="surrogate", why=meant)
        yield case(getattr(module, f"{group}_Mul"), x, y, truth="surrogate", why=meant)
        yield case(getattr(module, f"{group}_Inv"), x, truth="surrogate", why=meant)
        yield case(getattr(module, f"{group}_Act"), x, torch.randn(3, 3), truth="surrogate", why=meant)
        yield case(getattr(module, f"{group}_Act4"), x, torch.randn(3, 4), truth="surrogate", why=meant)
        yield case(getattr(module, f"{group}_AdjXa"), x, torch.randn(3, tangent), truth="surrogate", why=meant)
        if group in ("SE3", "Sim3"):
            lost = "in a: Adj(X) g, where the transpose of Adj(X^-1) is needed; equal for rotations alone"
            yield case(getattr(module, f"{group}_AdjTXa"), x, torch.randn(3, tangent), truth="wrong", why=lost)
        else:
            yield case(getattr(module, f"{group}_AdjTXa"), x, torch.randn(3, tangent), truth="surrogate", why=meant)
