"""The cotangent ignored, bent or mixed before a right vjp."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from corpus.measuring import differs_under, under_zeros
from corpus.rights import paired
from corpus.spoilers.base import Spoiler, is_real, of_cotangent
from corpus.wrapping import Wrapping


def _half_ignored(cotangent: Tensor) -> Tensor:
    kept = torch.ones(cotangent.numel(), dtype=cotangent.dtype)
    kept[cotangent.numel() // 2 :] = 0
    return cotangent * kept.reshape(cotangent.shape)


def _normalised(cotangent: Tensor) -> Tensor:
    size: Tensor = cotangent.norm().clamp(min=1e-12)
    return cotangent / size


def _has(ndim: int, axis: int) -> Any:
    def applies(right: Wrapping) -> bool:
        with torch.no_grad():
            outputs = right.specimen.call(*right.specimen.fresh())
        return all(output.ndim >= ndim and output.shape[axis] > 1 for output in outputs)

    return applies


def _of_pair(spoiler: Spoiler) -> Spoiler:
    """The same on a specimen with a second output."""

    def make(right: Wrapping) -> Wrapping | None:
        return spoiler.make(right.but(specimen=paired(right.specimen)))

    return replace(spoiler, make=make)


_BENT = "nonlinear in the cotangent"

SPOILERS = [
    of_cotangent("grad_output missing", "missing grad_output", torch.ones_like),
    of_cotangent("absolute value of the cotangent", _BENT, torch.abs, applies=is_real),
    of_cotangent("cotangent clamped to [-1, 1]", _BENT, lambda g: g.clamp(-1, 1), applies=is_real),
    of_cotangent("cotangent clamped at 0", _BENT, lambda g: g.clamp(min=0), applies=is_real),
    of_cotangent("sign of the cotangent", _BENT, torch.sign, applies=is_real),
    of_cotangent("cotangent squashed", _BENT, torch.tanh, applies=is_real),
    of_cotangent("cotangent normalised", _BENT, _normalised),
    of_cotangent(
        "0/0 at a zero cotangent", ("not finite", _BENT), lambda g: g * (g / g), differs=differs_under(under_zeros)
    ),
    of_cotangent("half of the cotangent ignored", ("dropped term", "region"), _half_ignored),
    of_cotangent(
        "cotangent's rows mixed", ("batch rows mixed", "permutation"), lambda g: g.roll(1, 0), applies=_has(2, 0)
    ),
    of_cotangent(
        "cotangent averaged over the batch",
        "batch rows mixed",
        lambda g: g.mean(0, keepdim=True).expand_as(g),
        applies=_has(2, 0),
    ),
    of_cotangent("cotangent flipped", "permutation", lambda g: g.flip(-1), applies=_has(1, -1)),
    _of_pair(of_cotangent("one output's cotangent ignored", "dropped term", torch.zeros_like, only=0)),
    _of_pair(of_cotangent("one output's cotangent doubled", ("constant factor", "formula"), lambda g: g * 2, only=0)),
]
