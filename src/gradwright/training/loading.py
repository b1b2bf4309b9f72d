"""From a loader to windows: a window is fetched whole, so that its items are counted before its first backward."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from gradwright.errors import AccumulationError
from gradwright.training.counting import Counting, Counts, in_a_row, summed
from gradwright.training.ranks import Ranks

_NONE, _HAS, _FAILED = 0.0, 1.0, 2.0


@dataclass
class Fetched:
    """The micro-batches of a window here, and what all ranks hold of it."""

    batches: list[Any]
    counts: list[Counts | None]
    taken: int = 0
    totals: Counts | None = None
    all_steps: int = 0
    most_steps: int = 0


def fetch(loader: Iterator[Any], steps: int | None, split: Callable[[Any], list[Any]], counting: Counting) -> Fetched:
    """``steps`` batches of the loader, each a micro-batch; or, without ``steps``, one batch that is ``split``."""
    taken, batches = 0, []
    for batch in loader:
        taken += 1
        batches += [batch] if steps is not None else split(batch)
        if steps is None or taken == steps:
            break
    return Fetched(batches, [counting.of_batch(batch) for batch in batches], taken)


def agree(ranks: Ranks, fetching: Callable[[], Fetched]) -> Fetched | None:
    """The window as all ranks hold it; None where all loaders have ended.

    Raises: what the loader here raised; AccumulationError where another rank's loader raised, ended earlier, or counts
    other losses; RankLost.
    """
    failure: Exception | None = None
    try:
        fetched = fetching()
    except Exception as error:
        failure, fetched = error, Fetched([], [])
        if ranks.count == 1:
            raise
    known = [counts for counts in fetched.counts if counts is not None]
    here = summed(known)
    state = _FAILED if failure is not None else _HAS if fetched.batches else _NONE
    told = ranks.gather([state, len(fetched.batches), len(here), *in_a_row(here)], "counting the items of the window")
    if failure is not None:
        raise failure
    _refuse_uneven(ranks, [row[0] for row in told])
    if state == _NONE:
        return None
    if len({row[2] for row in told}) > 1:
        raise AccumulationError(
            f"rank {ranks.name}, window {ranks.window}: the ranks count different losses "
            f"({', '.join(f'rank {name}: {int(row[2])}' for name, row in zip(ranks.names, told, strict=True))} of "
            "them): count= has to name the same losses on every rank"
        )
    fetched.all_steps, fetched.most_steps = int(sum(row[1] for row in told)), int(max(row[1] for row in told))
    if known:
        fetched.totals = {name: sum(row[3 + at] for row in told) for at, name in enumerate(sorted(here))}
    return fetched


def _refuse_uneven(ranks: Ranks, states: list[float]) -> None:
    where = f"rank {ranks.name}, window {ranks.window}"
    failed = [rank for rank, state in enumerate(states) if state == _FAILED]
    if failed:
        raise AccumulationError(
            f"{where}: the loader of rank {ranks.names[failed[0]]} raised an exception (it is in that rank's log), so "
            "no rank makes this update"
        )
    ended = [rank for rank, state in enumerate(states) if state == _NONE]
    if ended and len(ended) < len(states):
        names = ", ".join(str(ranks.names[rank]) for rank in ended)
        raise AccumulationError(
            f"{where}: the loader of rank {names} has ended and others have batches left, so no update can be made of "
            "them together. Give every rank as many batches (DistributedSampler, drop_last=True)"
        )


def skipping(loader: Iterable[Any], batches: int) -> Iterator[Any]:
    """The loader's batches after the first ``batches``, which a run before this one has used."""
    iterator = iter(loader)
    for _ in range(batches):
        if next(iterator, iterator) is iterator:
            break
    return iterator
