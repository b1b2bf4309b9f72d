"""The optimizers that are followed."""

from __future__ import annotations

import weakref
from collections.abc import Iterator

from torch.optim import Optimizer

from gradwright.doctor.observe.training.ordering.tallies import Tally
from gradwright.doctor.observe.training.ordering.windows import Record
from gradwright.doctor.session.model import Subject

_MOST = 16


class Records:
    """One record an optimizer, made when it is made, or met.

    ``backwards``: how many were called by now.
    """

    def __init__(self) -> None:
        self._records: weakref.WeakKeyDictionary[Optimizer, Record] = weakref.WeakKeyDictionary()
        self._active: list[Record] = []
        self._tallies: dict[str, Tally] = {}
        self.backwards = 0

    def of(self, optimizer: Optimizer) -> Record:
        record = self._records.get(optimizer)
        if record is None:
            record = self._records[optimizer] = Record(optimizer, whole=self.backwards == 0)
            self._active = [other for other in self._active if other.optimizer() is not None]
            if len(self._active) < _MOST:
                self._active.append(record)
        return record

    def named(self, record: Record, subject: Subject) -> None:
        """The optimizer steps, and so it has a name; what was made at the same place carries on its record."""
        if record.tally.subject is None:
            record.tally.subject = subject
            record.tally = self._tallies.setdefault(subject.id, record.tally)

    def leave(self, record: Record) -> None:
        self._active = [other for other in self._active if other is not record]

    def following(self) -> Iterator[Record]:
        """Those that are looked at now: some, and none that is gone."""
        return (record for record in self._active if not record.asleep and record.optimizer() is not None)

    def any_followed(self) -> bool:
        return any(True for _ in self.following())

    def tallies(self) -> list[Tally]:
        return list(self._tallies.values())
