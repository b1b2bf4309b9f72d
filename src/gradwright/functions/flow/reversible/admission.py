"""What a reversible network lets in, and what it says of the rest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor, nn

from gradwright.errors import UsageError
from gradwright.functions.flow.reversible.reconstruction import EXTENTS
from gradwright.ground.torch_versions.modules import caches_parametrizations, has_hooks


def require_blocks(blocks: Sequence[Any], kind: type[nn.Module]) -> None:
    for number, block in enumerate(blocks):
        if not isinstance(block, kind):
            raise UsageError(
                f"block {number} is a {type(block).__name__}, not a {kind.__name__}\n  do     {kind.__name__}(f, g)"
            )
        if has_hooks(block):
            raise UsageError(
                f"block {number} of a reversible network has hooks, which would not be called.\n"
                "  do     register them on its f and g, or on the whole network"
            )


def require_options(check_inverse: str, tolerance: float | None) -> None:
    if check_inverse not in EXTENTS:
        raise UsageError(f"check_inverse is {check_inverse!r}\n  do     one of {', '.join(map(repr, EXTENTS))}")
    if tolerance is not None and not tolerance > 0:
        raise UsageError(f"tolerance is {tolerance!r}\n  do     a positive number, or None for √eps of the dtype")


def require_halves(x1: Any, x2: Any) -> None:
    halves = [x for x in (x1, x2) if isinstance(x, Tensor) and (x.is_floating_point() or x.is_complex())]
    if len(halves) < 2 or x1.dtype != x2.dtype or x1.device != x2.device:
        told = " and ".join(f"{x.dtype} on {x.device}" if isinstance(x, Tensor) else type(x).__name__ for x in (x1, x2))
        raise UsageError(
            f"a reversible network takes two floating-point tensors of one dtype and device, not {told}.\n"
            "  do     x1, x2 = x.chunk(2, dim=1)"
        )


def require_shapes(learnt: Iterable[Tensor]) -> None:
    if any(nn.parameter.is_lazy(parameter) for parameter in learnt):
        raise UsageError(
            "a reversible network holds lazy parameters that have no shape yet.\n"
            "  do     call it once under torch.no_grad() before training"
        )


def require_no_cache() -> None:
    """Weights cached by ``parametrize.cached()`` would be those of the call without a graph, and without a gradient."""
    if caches_parametrizations():
        raise UsageError(
            "a reversible network is differentiated inside torch.nn.utils.parametrize.cached().\n"
            "  why    f and g are called without a graph first; that call's weights would stay, and get no gradient\n"
            "  do     leave parametrize.cached() before the forward, and for the backward"
        )
