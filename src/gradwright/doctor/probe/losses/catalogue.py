"""The losses of ``gradwright.losses`` that code in a script may be: how each is called, and with what numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

# What a target holds: real numbers; 0 and 1 for each element of the prediction; a class number for each row; a
# distribution over the classes of each row.
Target = Literal["real", "binary", "class", "distribution"]


@dataclass(frozen=True)
class Entry:
    """``name``: of the function. ``options``: its numbers, with their usual values. ``fixed``: what else is said.
    ``axis``: that of the classes, where the target is a distribution."""

    name: str
    target: Target
    options: Mapping[str, float] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    reductions: tuple[str, ...] = ("mean", "sum")
    from_probabilities: bool = False
    axis: int = 1


def _overlap(name: str, **options: float) -> tuple[Entry, ...]:
    kinds: tuple[tuple[str, Target], ...] = (("binary", "binary"), ("multilabel", "binary"), ("multiclass", "class"))
    return tuple(
        Entry(name, target, options, {"mode": mode} | ({} if logits else {"from_logits": False}), ("mean",), not logits)
        for mode, target in kinds
        for logits in (True, False)
    )


CATALOGUE: Final[tuple[Entry, ...]] = (
    Entry("huber_loss", "real", {"delta": 1.0}),
    Entry("smooth_l1_loss", "real", {"beta": 1.0}),
    Entry("pseudo_huber_loss", "real", {"delta": 1.0}),
    Entry("log_cosh_loss", "real"),
    Entry("general_robust_loss", "real", {"alpha": 1.0, "scale": 1.0}),
    Entry("quantile_loss", "real", {"q": 0.5}),
    Entry("binary_cross_entropy_with_logits", "binary"),
    Entry("binary_focal_loss", "binary", {"gamma": 2.0, "alpha": 0.25}),
    Entry("cross_entropy", "class"),
    Entry("cross_entropy", "distribution"),
    *(
        Entry(
            "kl_div",
            "distribution",
            fixed={"from_logits": True} | ({} if axis == -1 else {"dim": axis}),
            reductions=("mean", "sum", "batchmean"),
            axis=axis,
        )
        for axis in (-1, 1)
    ),
    Entry("focal_loss", "class", {"gamma": 2.0}),
    *_overlap("dice_loss", smooth=0.0),
    *_overlap("jaccard_loss", smooth=0.0),
    *_overlap("tversky_loss", alpha=0.5, beta=0.5, smooth=0.0),
    *_overlap("focal_tversky_loss", smooth=0.0),
    *_overlap("bce_dice_loss", smooth=0.0),
)
