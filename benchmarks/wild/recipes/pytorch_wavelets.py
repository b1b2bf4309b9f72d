"""pytorch-wavelets 1.3.0: wavelet transforms, each backward another transform."""

from collections.abc import Iterator

import torch

from wild.case import SAVED, Case, case
from wild.loading import load

REAL = {
    "GW106": SAVED,
    "GW210": "every gradient hangs on needs_input_grad[0]: the second input alone gets none, or dies (dy is not set)",
}


def cases() -> Iterator[Case]:
    load("pywt", "PyWavelets", bare=False)
    dwt = load("pytorch_wavelets.dwt.lowlevel", "pytorch-wavelets")
    scatter = load("pytorch_wavelets.scatternet.lowlevel", "pytorch-wavelets")
    h0, h1 = torch.tensor([0.1, 0.7, 0.6, -0.2]), torch.tensor([0.2, 0.6, -0.7, 0.1])
    row = [h.reshape(1, 1, 1, 4) for h in (h0, h1)]
    col = [h.reshape(1, 1, 4, 1) for h in (h0, h1)]
    x, line = torch.randn(1, 2, 8, 6, requires_grad=True), torch.randn(1, 2, 8, requires_grad=True)
    flat = [h.reshape(1, 1, 4) for h in (h0, h1)]
    edge = "the padding by reflection is not transposed: the gradient is another near the border"
    for mode in ("zero", "symmetric", "periodization"):
        code = dwt.mode_to_int(mode)
        truth, why = ("wrong", edge) if mode == "symmetric" else ("right", "")
        yield case(dwt.AFB2D, x, *row, *col, code, name=f"AFB2D, mode {mode}", truth=truth, why=why)
        yield case(dwt.AFB1D, line, *flat, code, name=f"AFB1D, mode {mode}", truth=truth, why=why)
        low, high = torch.randn(1, 2, 5, 4, requires_grad=True), torch.randn(1, 2, 3, 5, 4, requires_grad=True)
        yield case(dwt.SFB2D, low, high, *row, *col, code, name=f"SFB2D, mode {mode}", truth=truth, why=why)
        yield case(
            dwt.SFB1D,
            torch.randn(1, 2, 5, requires_grad=True),
            torch.randn(1, 2, 5, requires_grad=True),
            *flat,
            code,
            name=f"SFB1D, mode {mode}",
            truth=truth,
            why=why,
        )
    yield case(scatter.SmoothMagFn, torch.randn(3, 4), torch.randn(3, 4), 0.1)
