"""roma 1.8.0: orthogonal Procrustes and its relatives."""

from collections.abc import Iterator

import torch

from wild.case import SAVED, Case, case
from wild.loading import load

REAL = {"GW106": SAVED}


def cases() -> Iterator[Case]:
    module = load("roma.mappings", "roma", bare=False)
    m = torch.randn(3, 3, 3)
    for name in ("_ProcrustesManualDerivatives", "_ProcrustesManualDerivativesNoJvp"):
        for rotation in (True, False):
            yield case(getattr(module, name), m, rotation, 0.0, name=f"{name}, force_rotation {rotation}")
    for name in ("_HornEigenvectorManualDerivatives", "_HornEigenvectorManualDerivativesNoJvp"):
        yield case(getattr(module, name), m.double(), 0.0)
    for name in ("_ProcrustesRegularization", "_ProcrustesRegularizationNoJvp"):
        yield case(
            getattr(module, name),
            m,
            torch.linalg.qr(m).Q.contiguous(),
            0.1,
            truth="surrogate",
            why="a penalty's gradient without its value, on purpose: M gets regularization * (M - R)",
        )
