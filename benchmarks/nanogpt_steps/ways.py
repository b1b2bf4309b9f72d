"""The ways of a step: the two loops as they are shipped, each part of ours alone or left out, the plain loop compiled.

``WAYS``: by name, what makes a loop with ``step(micro_batches)``; all begin with the same weights. A part is left out
by what plain torch has in its place.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

import gradwright as gw

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "nanogpt"))

import fused
import plain
from fused import FusedGPT
from model import GPT, Size
from plain import PlainLoop
from settings import Settings
from train import Loop


def norm_linear(x: Tensor, gain: Tensor, weight: Tensor) -> Tensor:
    return F.linear(F.layer_norm(x, gain.shape, gain), weight)


def perceptron(x: Tensor, gain: Tensor, up: Tensor, down: Tensor) -> Tensor:
    return x + F.linear(F.gelu(norm_linear(x, gain, up)), down)


IN_PLAIN_TORCH: dict[str, Callable[..., Tensor]] = {
    function.__name__: function for function in (norm_linear, perceptron)
}


def gradients_of_ours() -> set[str]:
    """The names of the gradients written by hand that the example has."""
    return {name for name, value in vars(fused).items() if isinstance(value, gw.CustomGradient)}


class Changed:
    """A loop while whose steps the names of ``place`` are ``others``."""

    def __init__(self, loop: Any, place: Any, **others: Any) -> None:
        self.loop, self.place, self.others = loop, place, others

    def step(self, micro_batches: Sequence[Any]) -> Tensor:
        with self._changed():
            loss: Tensor = self.loop.step(micro_batches)
        return loss

    @contextlib.contextmanager
    def _changed(self) -> Iterator[None]:
        before = {name: getattr(self.place, name) for name in self.others}
        vars(self.place).update(self.others)
        try:
            yield
        finally:
            vars(self.place).update(before)


class _Losses:
    """``torch.nn.functional``, as plain.py asks for it, with Gradwright's loss."""

    cross_entropy = staticmethod(gw.losses.cross_entropy)


def _with_each_parameter_apart(size: Size, settings: Settings) -> PlainLoop:
    loop = PlainLoop(GPT(size), settings)
    for group in loop.optimizer.param_groups:
        group["fused"] = False
    return loop


def _compiled(size: Size, settings: Settings) -> PlainLoop:
    loop = PlainLoop(GPT(size), settings)
    loop.model = torch.compile(loop.gpt)
    return loop


def _without(name: str) -> Callable[[Size, Settings], Changed]:
    return lambda size, settings: Changed(Loop(FusedGPT(size), settings), fused, **{name: IN_PLAIN_TORCH[name]})


def _with_torchs_gelu(size: Size, settings: Settings) -> Changed:
    return Changed(Loop(FusedGPT(size), settings), fused, gelu=F.gelu, of_gelu=torch.ops.aten.gelu_backward)


PLAIN, COMPILED, OURS = "plain.py", "plain.py, torch.compile", "train.py's loop"
KEPT = "train.py: and freed memory kept"
KEEP_FREED = (KEPT, "plain.py, and freed memory kept")
WAYS: dict[str, Callable[[Size, Settings], Any]] = {
    PLAIN: lambda size, settings: PlainLoop(GPT(size), settings),
    KEPT: lambda size, settings: Loop(FusedGPT(size), settings),
    OURS: lambda size, settings: Loop(FusedGPT(size), settings),
    **{f"{OURS}, {name} by autograd": _without(name) for name in IN_PLAIN_TORCH},
    f"{OURS}, torch's gelu": _with_torchs_gelu,
    "plain.py, and freed memory kept": lambda size, settings: PlainLoop(GPT(size), settings),
    "plain.py, our gradients": lambda size, settings: PlainLoop(FusedGPT(size), settings),
    "plain.py, our loss": lambda size, settings: Changed(PlainLoop(GPT(size), settings), plain, F=_Losses),
    "plain.py's model, GradientAccumulator": lambda size, settings: Loop(GPT(size), settings),
    "plain.py, AdamW's default loop": _with_each_parameter_apart,
    COMPILED: _compiled,
}
