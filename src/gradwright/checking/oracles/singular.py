"""Operators of torch that document points without a gradient, although differences are smooth there."""

from __future__ import annotations

from typing import Any

from gradwright.checking.trial import Trial
from gradwright.ground.torch_versions.modes import TorchDispatchMode

# linalg.qr: the first columns must be independent; householder_product: no tau may be 1 / |v|^2; to_sparse: a gradient
# has the pattern of the entries; lu: the matrix must have full rank.
SINGULAR = {
    "aten::linalg_qr", "aten::geqrf", "aten::ormqr", "aten::linalg_householder_product", "aten::_to_sparse",
    "aten::linalg_lu", "aten::linalg_lu_factor_ex", "aten::_lu_with_info",
}  # fmt: skip


class _Noting(TorchDispatchMode):
    """Notes the names of the operators that are called, by the engine's own backward too."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch has no types here
        self.seen: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.add(func.name().split(".")[0])
        return func(*args, **(kwargs or {}))


def has_documented_singularities(trial: Trial) -> bool:
    """Does the forward or the backward use such an operator? Cost: one gradient. Raises: TimeUp; what the subject does.

    What leaves torch (NumPy, an extension) isn't seen.
    """
    mode = _Noting()
    with mode:
        trial.gradient()
    return bool(mode.seen & SINGULAR)
