"""What a row of the benchmark is: a loss, its data, the same by plain torch, and who else has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Generator, Tensor

Maker = Callable[[], Callable[..., Tensor] | None]  # of a peer's loss; None, where the peer is not installed
Draw = Callable[[Generator, int], list[Tensor]]
Family = Literal["element-wise", "row-wise", "segmentation", "other"]

IN_CACHE = "in the cache"  # the inputs stay there between calls
CELLS = (IN_CACHE, "upstream 0.37", "upstream changes", "strided", "bfloat16", "no grad")
ELEMENTWISE_CELLS = (*CELLS, "weighted", "masked")


@dataclass(frozen=True)
class Subject:
    """``loss``: of the package ``gradwright.losses``, the module to measure. ``draw``: its tensors, of so many elements
    of the prediction; the first ``wanted`` get gradients. ``naive``: the same by plain torch, one operation after the
    other, which is also what is compiled, and what is right in float64: unreduced, if the loss is element-wise, else
    the whole loss. ``peers``: by the column's name; of an element-wise loss they take ``reduction``.

    ``passes``: how often every tensor has to be read for value and gradient (1; 2, where the gradient needs sums over
    the whole batch; 0: the loss is not about memory, and no floor is told).
    """

    name: str
    family: Family
    loss: Callable[[Any], Any]
    draw: Draw
    naive: Callable[..., Tensor]
    peers: Mapping[str, Maker] = field(default_factory=dict)
    wanted: int = 1
    passes: int = 1
    sizes: tuple[int, ...] = (1_000_000, 10_000_000)
    cells: tuple[str, ...] = CELLS

    @property
    def is_elementwise(self) -> bool:
        return self.family == "element-wise"


def normal(generator: Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=generator) * 2


def uniform(generator: Generator, *shape: int) -> Tensor:
    return torch.rand(shape, generator=generator)


def classes(generator: Generator, count: int, *shape: int) -> Tensor:
    return torch.randint(0, count, shape, generator=generator)


def yes_or_no(generator: Generator, *shape: int) -> Tensor:
    return (torch.rand(shape, generator=generator) < 0.4).float()


def pair(generator: Generator, size: int) -> list[Tensor]:
    """A prediction and a target."""
    return [normal(generator, size), normal(generator, size)]


def logits_and_labels(generator: Generator, size: int) -> list[Tensor]:
    """Logits, and labels 0 or 1."""
    return [normal(generator, size), yes_or_no(generator, size)]


def binary_image(generator: Generator, size: int) -> list[Tensor]:
    """Logits and labels [N, 1, 500, 500]."""
    shape = (size // 250_000, 1, 500, 500)
    return [normal(generator, *shape), yes_or_no(generator, *shape)]


def image_of_classes(generator: Generator, size: int) -> list[Tensor]:
    """Logits [N, 8, 250, 250] and class numbers [N, 250, 250]."""
    count = size // 500_000
    return [normal(generator, count, 8, 250, 250), classes(generator, 8, count, 250, 250)]


def rows_of(count: int) -> Draw:
    """Logits [N, count] and class numbers [N]."""

    def draw(generator: Generator, size: int) -> list[Tensor]:
        rows = max(1, size // count)
        return [normal(generator, rows, count), classes(generator, count, rows)]

    return draw
