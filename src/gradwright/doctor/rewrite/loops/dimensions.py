"""One index of a subscript, as it will be written, and what it leaves of its axis."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from gradwright.doctor.rewrite.loops.ir import Loop
from gradwright.doctor.rewrite.loops.terms import Term
from gradwright.doctor.rewrite.loops.value import Value


@dataclass
class Dimension:
    """One index, as it will be written. ``labels``: what it leaves, loops or the number of an axis of the cell.

    ``flip``: it runs backwards. ``window``: (length, step, label) of an axis that ``unfold`` adds, behind all others.
    ``advanced``: the index is a tensor. ``roll``: by so much. ``block``: it is cut into blocks of that length.
    """

    part: ast.expr
    labels: tuple[Loop | int, ...] = ()
    flip: bool = False
    window: tuple[ast.expr, ast.expr, Loop | int, bool] | None = None
    advanced: Value | None = None
    cut: Term | None = None
    roll: int = 0
    block: int = 0
    sure: frozenset[Loop] = frozenset()
    unsure: frozenset[Loop] = frozenset()
