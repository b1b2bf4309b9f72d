"""A training step, in the ways it is written; each way computes one loss, and all of them the same one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from torch import Tensor, nn


@dataclass(frozen=True)
class Task:
    """``ways``: from the model to the loss, by name; the first is the usual one, that the others are compared with.

    ``ours``: the names of those that call Gradwright.
    """

    name: str
    model: nn.Module
    ways: dict[str, Callable[[nn.Module], Tensor]]
    ours: tuple[str, ...]


def tanh_network(*widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths[:-1]):
        layers += [nn.Linear(inputs, outputs), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(widths[-2], widths[-1]))
