"""Observed: in which order a training step clears, goes backward, clips, steps and schedules."""

from __future__ import annotations

from dataclasses import dataclass

from gradwright.doctor.session.facts.fact import Fact
from gradwright.doctor.session.place import Location


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOrder(Fact):
    """What the steps of an optimizer found: the gradients of a backward, none, or those of the step before.

    ``fed_steps``: a backward had reached the optimizer's parameters since the step before. ``emptied_steps``: likewise,
    but its gradients were cleared (``cleared_at``, ``cleared_by``; by hand: None, "") before the step, which moved
    nothing; ``backward_at`` is that backward. ``repeated_steps``: after a step, another (``repeated_at``) with the same
    gradients and no backward between. ``early``: the first step came before any backward, at the place of those fed.
    """

    steps: int
    fed_steps: int
    emptied_steps: int = 0
    first_emptied_step: int | None = None
    cleared_at: Location | None = None
    cleared_by: str = ""
    backward_at: Location | None = None
    repeated_steps: int = 0
    first_repeated_step: int | None = None
    repeated_at: Location | None = None
    early: bool = False
    step_at: Location | None = None
    wasted_steps: int = 0
    wasted_divided: int = 0
    wasted_backwards: int = 0
    wasted_at: Location | None = None
    wasted_by: str = ""
    scaled_steps: int = 0
    scaled_at: Location | None = None
    scale: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Accumulation(Fact):
    """Backwards of one place that added up to one step: how many, and by what each loss was divided.

    ``usual``: how many micro-batches a step usually had, ``usual_windows`` how often; ``windows`` counts the steps that
    this place fed, ``accumulated`` those of them with more than one micro-batch. ``divisor``: what the losses of the
    usual steps were divided by, 1 if by nothing. Of the steps: ``right``, divided by as many as there were;
    ``undivided``; ``otherwise``, the usual number and another divisor; ``short`` and ``long``, fewer or more than the
    usual number, divided by the usual number. ``unequal``: right but for the ``counts`` of elements of their means.
    """

    windows: int
    accumulated: int
    usual: int
    usual_windows: int
    divisor: float
    right: int
    undivided: int = 0
    otherwise: int = 0
    short: int = 0
    first_short_step: int | None = None
    short_size: int = 0
    long: int = 0
    first_long_step: int | None = None
    long_size: int = 0
    unequal: int = 0
    counted: int = 0
    counts: tuple[float, ...] = ()
    first_unequal_step: int | None = None
    backward_at: Location
    optimizer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipOrder(Fact):
    """One place that clips gradients of an optimizer.

    ``scaled_calls``: while they were still those of a scaled loss; ``scaler_enabled``: whether the scaler scaled in
    this run, and by how much (0: not known). ``idle_steps`` of ``steps``: it ran between the step before and the first
    backward, and nothing was clipped after that.
    """

    function: str
    calls: int
    location: Location
    scaled_calls: int = 0
    first_scaled_step: int | None = None
    scaler_enabled: bool = True
    scale: float = 0.0
    limit: float | None = None
    steps: int = 0
    idle_steps: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerOrder(Fact):
    """When the schedule of an optimizer's learning rate moved on.

    ``accumulated_windows``: steps with more than one micro-batch; ``crowded_windows`` of them: the scheduler moved on
    with each micro-batch. ``before_first``: it moved before the optimizer's first step, at a place where it did so
    after later steps, too.
    """

    scheduler: str
    location: Location
    calls: int
    optimizer_steps: int
    accumulated_windows: int = 0
    crowded_windows: int = 0
    micro_batches: int = 0
    before_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SynchronisedForwards(Fact):
    """Forwards of a DistributedDataParallel model while gradients were accumulated.

    ``synchronised_windows`` of ``accumulated_windows``: more than the last forward ran with synchronisation.
    ``backward_inside``: a backward of them ran inside ``no_sync``, where it has no effect any more.
    """

    location: Location
    world_size: int
    micro_batches: int
    accumulated_windows: int
    synchronised_windows: int
    forwards: int
    synchronised_forwards: int
    backward_inside: bool = False
