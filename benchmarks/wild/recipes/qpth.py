"""qpth 0.0.18: a differentiable quadratic programme."""

from collections.abc import Iterator

import torch

from wild.case import SAVED, Case, case
from wild.loading import load

REAL = {"GW106": SAVED}


def cases() -> Iterator[Case]:
    load("qpth", "qpth", bare=False, absent=("cvxpy",))
    from qpth.qp import QPFunction

    torch.manual_seed(0)
    root = torch.randn(2, 3, 3, dtype=torch.float64)
    q = root @ root.mT + torch.eye(3, dtype=torch.float64)
    p, g, h = (torch.randn(*shape, dtype=torch.float64) for shape in ((2, 3), (2, 4, 3), (2, 4)))
    h = 0.05 * h.abs() + 0.02  # tight enough that some constraints are active, and have a gradient
    none = torch.empty(0, dtype=torch.float64)

    def solve(p, g, h):  # type: ignore[no-untyped-def]
        return QPFunction(verbose=-1, eps=1e-14, maxIter=40)(q, p, g, h, none, none)

    yield case(solve, p, g, h, name="QPFunctionFn, one programme a row")
    yield case(
        solve,
        p,
        g[0],
        h[0],
        name="QPFunctionFn, constraints shared by the rows",
        truth="wrong",
        why="what all rows share gets the mean of the rows' gradients, where the derivative is their sum",
    )
