"""What the windows of the optimizers add up to, as facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gradwright.doctor.observe.training.ordering.tallies import Tally
from gradwright.doctor.session.facts import (
    ClipOrder,
    Fact,
    SchedulerOrder,
    StepOrder,
    SynchronisedForwards,
)


def facts_of(tallies: Iterable[Tally]) -> list[Fact]:
    """The same ids as before, as they grow. A place that several optimizers share is told of once."""
    told: set[str] = set()
    return [fact for tally in tallies for fact in _facts(tally, told)]


def _facts(tally: Tally, told: set[str]) -> Iterator[Fact]:
    assert tally.subject is not None  # those that never stepped are left out
    subject = tally.subject.id
    yield StepOrder(
        id=f"order {subject}",
        subject=subject,
        steps=tally.steps,
        fed_steps=tally.fed,
        emptied_steps=tally.emptied,
        first_emptied_step=tally.first_emptied,
        cleared_at=tally.cleared_at,
        cleared_by=tally.cleared_by,
        backward_at=tally.emptied_backward,
        repeated_steps=tally.repeated,
        first_repeated_step=tally.first_repeated,
        repeated_at=tally.repeated_at,
        early=tally.early_at is not None and tally.fed_at_early >= 2 and tally.fed_at_early == tally.judged - 1,
        step_at=tally.early_at,
        wasted_steps=tally.wasted,
        wasted_divided=tally.wasted_divided,
        wasted_backwards=tally.wasted_backwards,
        wasted_at=tally.wasted_at,
        wasted_by=tally.wasted_by,
        scaled_steps=tally.scaled if not tally.by_hand else 0,
        scaled_at=tally.scaled_at,
        scale=tally.scale,
    )
    for place in tally.places.values() if not tally.by_hand else ():
        accumulation = place.fact(tally.subject.name)
        if accumulation is not None and _first(f"accumulation {place.site.id}", told):
            yield accumulation
    for clip in tally.clips.values():
        if _first(f"clip {clip.location}:{clip.location.column}", told):
            yield ClipOrder(
                id=f"clip {subject} {clip.location}:{clip.location.column}",
                subject=subject,
                function=clip.function,
                location=clip.location,
                calls=clip.calls,
                scaled_calls=clip.scaled_calls,
                first_scaled_step=clip.first_scaled,
                scaler_enabled=clip.enabled,
                scale=clip.scale,
                limit=clip.limit,
                steps=clip.steps,
                idle_steps=clip.idle_steps,
            )
    for schedule in tally.schedules.values():
        yield SchedulerOrder(
            id=f"schedule {subject} {schedule.scheduler} {schedule.location}:{schedule.location.column}",
            subject=subject,
            scheduler=schedule.scheduler,
            location=schedule.location,
            calls=schedule.calls,
            optimizer_steps=tally.steps,
            accumulated_windows=schedule.accumulated,
            crowded_windows=schedule.crowded,
            micro_batches=schedule.micro_batches,
            before_first=schedule.before_first,
        )
    for model in tally.forwards.values():
        if model.accumulated:
            yield SynchronisedForwards(
                id=f"forwards {subject} {model.location}:{model.location.column}",
                subject=subject,
                location=model.location,
                world_size=model.world_size,
                micro_batches=model.micro_batches,
                accumulated_windows=model.accumulated,
                synchronised_windows=model.synchronised,
                forwards=model.forwards,
                synchronised_forwards=model.synchronised_forwards,
                backward_inside=model.backward_inside,
            )


def _first(name: str, told: set[str]) -> bool:
    new = name not in told
    told.add(name)
    return new
