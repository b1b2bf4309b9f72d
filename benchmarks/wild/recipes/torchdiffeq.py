"""torchdiffeq 0.2.5. tests/real/notes.md tells more."""

from collections.abc import Iterator

import torch

from wild.case import SAVED, Case, case
from wild.loading import load

REAL = {"GW106": SAVED}


def cases() -> Iterator[Case]:
    load("torchdiffeq", "torchdiffeq", bare=False, absent=("scipy",))
    import torchdiffeq
    from torchdiffeq._impl.misc import _StitchGradient
    from torchdiffeq._impl.rk_common import _UncheckedAssign

    class Field(torch.nn.Module):
        def __init__(self, w: torch.Tensor) -> None:
            super().__init__()
            self.w = w

        def forward(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.tanh(y @ self.w) + torch.sin(t)

    def adjoint(y, t, w):  # type: ignore[no-untyped-def]
        return torchdiffeq.odeint_adjoint(Field(w), y, t, rtol=1e-9, atol=1e-11, adjoint_params=(w,))

    yield case(adjoint, torch.randn(2, 2), torch.linspace(0.0, 1.0, 4), torch.randn(2, 2), name="OdeintAdjointMethod")
    yield case(
        _StitchGradient,
        torch.randn(3),
        torch.randn(3),
        truth="surrogate",
        why="the forward's result is one rounding away from x1",
    )
    yield case(
        _UncheckedAssign,
        torch.randn(3, 4),
        torch.randn(3),
        (..., 1),
        truth="wrong",
        why="in scratch: the overwritten slice should be 0; harmless in use, as nothing upstream reads it",
        GW202="writes through .data, on purpose",
    )
