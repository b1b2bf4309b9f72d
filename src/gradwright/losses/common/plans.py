"""``loss.plan(...)``: which launches a loss takes, on which back end, and why."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor
from torch.compiler import is_dynamo_compiling

from gradwright.kernels.launch.plan import Plan


@dataclass(frozen=True)
class LossPlan:
    """``steps``: what each launch of a value and its gradients is for, and its plan, in order. ``also``: what plain
    torch does beside them. ``bytes``: what all launches read and write, each element once for each launch."""

    steps: tuple[tuple[str, Plan], ...]
    also: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        return sum(plan.bytes for _, plan in self.steps)

    @property
    def backend(self) -> str:
        """The first kernel's: "numba", "triton", or "torch", where no launch is a kernel."""
        return next((plan.backend for _, plan in self.steps if plan.backend != "torch"), "torch")

    @property
    def is_fallback(self) -> bool:
        """Is some launch plain torch, where a kernel was wanted?"""
        return any(plan.is_fallback for _, plan in self.steps)

    @property
    def why(self) -> str:
        """Why no kernel is used; "" where every launch is one."""
        return next((plan.why for _, plan in self.steps if plan.is_fallback), "")

    def __str__(self) -> str:
        lines = [f"{what}: {plan}" for what, plan in self.steps]
        return "\n".join([*lines, *[f"beside it, by torch: {text}" for text in self.also]])


class _Told(threading.local):
    """What is launched, in this thread, while somebody plans."""

    steps: list[tuple[str, Plan]] | None = None
    also: list[str] | None = None


_told = _Told()


@contextmanager
def planning() -> Iterator[tuple[list[tuple[str, Plan]], list[str]]]:
    """What is launched within, as it is told."""
    steps: list[tuple[str, Plan]] = []
    also: list[str] = []
    before = _told.steps, _told.also
    _told.steps, _told.also = steps, also
    try:
        yield steps, also
    finally:
        _told.steps, _told.also = before


def is_planned() -> bool:
    """Does anybody want to know?"""
    return not is_dynamo_compiling() and _told.steps is not None


def tell(what: str, plan: Plan) -> None:
    """A launch, for whoever plans."""
    if _told.steps is not None:
        _told.steps.append((what, plan))


def why_unfused(learns: bool, prediction: Tensor) -> str:
    """Why a loss of rows, or of sums for each class, takes no kernel. ``learns``: another argument wants a gradient."""
    if learns:
        return "a gradient by another argument is wanted, which no kernel has"
    if prediction.device.type not in ("cpu", "cuda"):
        return f"there are no kernels of rows for {prediction.device.type}"
    return "torch's operations are traced, transformed or watched"


def tell_also(what: str) -> None:
    """What plain torch does, for whoever plans."""
    if not is_dynamo_compiling() and _told.also is not None:
        _told.also.append(what)
