"""What a figure is: one row of a table, measured on one machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Machine:
    """What the figures are measured on."""

    device: torch.device
    #: A dry run: small sizes, few rounds, no torch.compile.
    is_small: bool
    #: Bytes read plus bytes written a second, of a large copy on the device, measured by this process.
    copy_bytes_per_second: float
    #: How often each way takes its turn.
    rounds: int

    def copy_seconds(self, moved_bytes: float) -> float:
        """What reading and writing so many bytes (the sum of both) takes at the speed of a copy."""
        return moved_bytes / self.copy_bytes_per_second


@dataclass(frozen=True)
class Figure:
    """One row of one table of ``results/QUESTION.cuda.json``."""

    #: The benchmark of the same question on a CPU: the name of its file.
    question: str
    #: Of the table within that result; "" for the main one.
    title: str
    #: The name of the row: that of the CPU's, where the same is measured.
    row: str
    #: Returns the cells, which JSON can hold; the same columns in every row of a table.
    measure: Callable[[Machine], dict[str, Any]]

    @property
    def name(self) -> str:
        return f"{self.question}: {self.row}"


class Skipped(Exception):
    """A figure that can't be had on this machine; the message says why."""


class OursFailed(Exception):
    """Our own way raised an error or was wrong. ``cells``: what is known all the same."""

    def __init__(self, why: str, cells: dict[str, Any]) -> None:
        super().__init__(why)
        self.cells = cells
