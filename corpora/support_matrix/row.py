"""A row: a program that asks one thing of a custom gradient. Its docstring is what the page says of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Program = Callable[[Any], tuple[Any, Any]]


@dataclass(frozen=True)
class Row:
    """``name`` is also the name of the peers' programs of this row."""

    name: str
    section: str
    title: str
    program: Program

    def __str__(self) -> str:
        return self.name

    @property
    def asks(self) -> str:
        return " ".join(inspect.cleandoc(self.program.__doc__ or "").split()).replace("``", "`")


ROWS: list[Row] = []


def row(section: str, title: str) -> Callable[[Program], Program]:
    """Make the decorated program a row; rows stand in the order of their definition."""

    def enter(program: Program) -> Program:
        ROWS.append(Row(program.__name__, section, title, program))
        return program

    return enter
