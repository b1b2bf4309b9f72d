"""torchsde 0.2.6. tests/real/notes.md tells more."""

from collections.abc import Iterator

import torch

from wild.case import Case, case
from wild.loading import load


def cases() -> Iterator[Case]:
    load("trampoline", "trampoline")
    load("torchsde", "torchsde", bare=False, absent=("scipy", "boltons"))
    import torchsde

    class Sde(torch.nn.Module):
        noise_type, sde_type = "diagonal", "stratonovich"

        def __init__(self, w: torch.Tensor) -> None:
            super().__init__()
            self.w = w

        def f(self, t, y):  # type: ignore[no-untyped-def]
            return torch.tanh(y @ self.w)

        def g(self, t, y):  # type: ignore[no-untyped-def]
            return 0.2 * torch.tanh(y) + 0.1

    def solve(y, w):  # type: ignore[no-untyped-def]
        noise = torchsde.BrownianInterval(0.0, 1.0, size=y.shape, dtype=y.dtype, entropy=5)
        times = torch.tensor([0.0, 0.5, 1.0], dtype=y.dtype)
        return torchsde.sdeint_adjoint(
            Sde(w),
            y,
            times,
            bm=noise,
            dt=0.05,
            method="reversible_heun",
            adjoint_method="adjoint_reversible_heun",
            adjoint_params=(w,),
        )

    yield case(solve, torch.randn(2, 2), torch.randn(2, 2), name="_SdeintAdjointMethod, reversible_heun")
