"""Observed of graphs and of gradients while the script trained: what is kept, how sizes go from layer to layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gradwright.doctor.session.facts.fact import Fact
from gradwright.doctor.session.place import Location

MANY_KEPT = 6  # graphs of earlier steps alive at once, below which nothing is suspected


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphsKept(Fact):
    """Graphs of earlier steps that were still alive when a later step's backward began.

    ``kept``: the most of them at once; ``history``: pairs of a step (from 1) and how many of earlier steps were alive
    then. ``nodes``: pairs of a step and how many nodes ``variable`` (or what is differentiated, where ``from_root``)
    reached; ``from_root``: the backward itself reaches earlier steps. ``how`` says what ``variable`` is: a "tensor"
    that is made from its own last value, a "collection" of tensors, "" if no variable in sight holds them. ``text`` is
    the statement at ``location``.
    """

    steps: int
    kept: int
    history: tuple[tuple[int, int], ...]
    nodes: tuple[tuple[int, int], ...] = ()
    from_root: bool = False
    variable: str = ""
    how: str = ""
    text: str = ""
    location: Location | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientFlow(Fact):
    """Sizes of an optimizer's gradients along the longest chain of layers, as some of its steps found them.

    ``layers``: names of the weights, the one nearest to the loss first. One row per step of ``looked_at`` (from 1), one
    entry per layer: ``ratios`` are norms of the weights' gradients by those of the weights, ``biases`` norms of the
    biases' gradients, NaN where there is none. ``location``: where the layer farthest from the loss is made.
    """

    looked_at: tuple[int, ...]
    layers: tuple[str, ...]
    ratios: tuple[tuple[float, ...], ...]
    biases: tuple[tuple[float, ...], ...]
    location: Location | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadUnits(Fact):
    """Units of a layer whose weights and bias had a gradient of exactly zero at the last ``looked_at`` steps, and more.

    Only steps count at which the next layer had a gradient. ``last_step``: the last of them (from 1). ``died``: how
    many had one before, the last of them at step ``alive_at`` (0: none). ``activation``: what follows the layer
    ("relu", "tanh", "sigmoid"); ``samples``: values that each unit had at one step. ``optimizer_at``: where the
    optimizer was made.
    """

    layer: str
    units: int
    dead: int
    looked_at: int
    last_step: int
    died: int = 0
    alive_at: int = 0
    activation: str = "relu"
    samples: int = 0
    location: Location | None = None
    optimizer_at: Location | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalyMode(Fact):
    """Backwards that ran under autograd's anomaly mode, of how many. ``location``: where it was switched on.

    ``seconds``, ``seconds_under``: of one small step on this machine without it and under it; 0 where not tried.
    """

    backwards: int
    under: int
    location: Location | None = None
    seconds: float = 0.0
    seconds_under: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CostlyGraph(Fact):
    """A pattern in the graph of a ``backward`` call site that costs more than it must.

    ``pattern``: ``count`` "entries" of shape ``other`` taken one by one of a tensor of ``shape``; a tensor grown to
    ``shape`` by ``count`` calls of "cat"; a product of shape ``other`` with a "diagonal" matrix of ``shape`` that
    scales rows (``dim`` 0) or columns (1); ``count`` "rows" that each go through the same ``operations``, ``other`` the
    shape of the largest tensor that one of them makes, in the ``loop`` (None where its text speaks against it).
    ``bytes`` and ``seconds`` are what a step moves and takes for nothing, the
    latter tried on this machine (0 where not). ``step_seconds``: the least from one backward to the next,
    ``step_cpu_seconds`` the least that the thread worked in between. ``looks``: steps at which it was found, from the
    ``first`` on; ``text`` at ``location``: one of its operations.
    """

    pattern: Literal["entries", "cat", "diagonal", "rows"]
    count: int
    shape: tuple[int, ...]
    other: tuple[int, ...]
    bytes: int
    looks: int
    first: int
    seconds: float
    step_seconds: float
    step_cpu_seconds: float
    dim: int = -1
    text: str = ""
    location: Location | None = None
    operations: int = 0
    loop: Location | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopsTreated(Fact):
    """All loops were tried, and those whose finding is their fix are told: ``told`` are the places of such findings.

    A rule about something inside of a loop waits for this, so that no loop is told twice.
    """

    told: tuple[Location, ...]
