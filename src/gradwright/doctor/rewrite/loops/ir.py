"""The loop IR: a nest as a flat list of statements, each with the loops and guards around it; and its schedule.

Expressions stay Python's own (``ast.expr``), with these rewritten by ``reading``: what a loop variable stands for when
the loop runs over rows (``for row in x`` is read as ``for i in range(len(x))`` with ``x[i]`` for ``row``; likewise
``enumerate``, ``zip``, ``reversed``, a counting ``while``), and ``x[i][j]`` as ``x[i, j]``. A node that stands in for
another keeps the other's position, so that what was seen of it (``Seen.of``) is found.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, eq=False)
class Loop:
    """``for variable in range(start, stop, step)``; ``step`` is a literal and not 0.

    ``start`` and ``stop`` are over names bound before the nest, and over variables of loops around (a triangle).
    """

    variable: str
    start: ast.expr
    stop: ast.expr
    step: int
    node: ast.AST


@dataclass(frozen=True, eq=False)
class Place:
    """What is written: ``base`` (a name, or ``self.weight``) at ``indices``; none for the name itself."""

    base: str
    indices: tuple[ast.expr, ...]
    node: ast.expr


Kind = Literal["assign", "accumulate", "append", "extremum"]


@dataclass(frozen=True, eq=False)
class Statement:
    """One assignment of the body. ``guards``: conditions that must all hold (a branch's ``else`` is its negation).

    assign      ``target = value``
    accumulate  ``target = target operator value``; operators ``+ - * / min max and or``
    append      ``target.append(value)`` (``target`` is the list), or ``target[key] = value`` of a dict (``operator`` is
                the source of the key); rows joined to a tensor; a write to the next place of a tensor, if ``target``
                has indices: the first is where that begins
    extremum    ``if value operator target: target = value; ...``, operators ``< <= > >=``; ``also``: what else is
                assigned then (the index of the best)
    """

    number: int
    kind: Kind
    loops: tuple[Loop, ...]
    guards: tuple[ast.expr, ...]
    target: Place
    value: ast.expr
    node: ast.stmt
    operator: str = ""
    also: tuple[tuple[Place, ast.expr], ...] = ()


@dataclass(frozen=True, eq=False)
class Nest:
    """A loop taken apart. ``statements`` in the order of the text.

    ``temporaries``: names that the body assigns before it reads them, in every iteration, and nobody reads after it.
    ``live_outs``: names bound in the loop that are read after it. ``tail``: the statements after the loop that belong
    to the region (what makes a tensor of a list that the loop filled).
    """

    node: ast.stmt
    statements: tuple[Statement, ...]
    temporaries: frozenset[str]
    live_outs: frozenset[str]
    tail: tuple[ast.stmt, ...] = ()


# --- the schedule ----------------------------------------------------------------------------------------------------

Role = Literal["map", "reduce", "scatter", "running", "extremum", "append"]


@dataclass(frozen=True, eq=False)
class Vector:
    """A statement all of whose ``axes`` (loops, outermost first) are taken at once.

    map       every iteration has its own element of the target
    reduce    the loops ``reduced`` (some of the axes) do not index the target: it is accumulated over them
    scatter   several iterations may meet in one element, which one only the values say: it is accumulated into
    running   along ``reduced`` (one loop) every iteration's partial result is kept: cumsum, cumprod, cummax
    extremum, append   as in :class:`Statement`
    """

    statement: Statement
    axes: tuple[Loop, ...]
    role: Role
    reduced: tuple[Loop, ...] = ()


@dataclass(frozen=True, eq=False)
class Sequential:
    """A loop that stays, because it carries a dependence (``why``, in one sentence), with its body scheduled."""

    loop: Loop
    body: tuple[Step, ...]
    why: str


Step = Vector | Sequential


@dataclass(frozen=True, eq=False)
class Schedule:
    """``certificate``: one sentence that says why the order of iterations does not matter, for all shapes; "" if that
    rests on what was seen in the run (two arrays that did not share memory, an index without duplicates)."""

    steps: tuple[Step, ...]
    certificate: str = ""

    @property
    def carried(self) -> str:
        """Why the outermost loop that stays does stay; "" if none does."""
        return next((step.why for step in self.steps if isinstance(step, Sequential)), "")
