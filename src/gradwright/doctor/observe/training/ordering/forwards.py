"""Forwards of a DistributedDataParallel model: those that synchronise gradients in the backward, and those that don't.

The forward decides: it makes the reducer ready or not. A backward inside of ``no_sync`` changes nothing any more.
"""

from __future__ import annotations

import weakref
from itertools import islice
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from gradwright.doctor.observe.training.ordering.frames import Places
from gradwright.doctor.observe.training.ordering.patches import Patches
from gradwright.doctor.observe.training.ordering.records import Records
from gradwright.doctor.observe.training.ordering.tallies import ForwardTally
from gradwright.doctor.observe.training.ordering.windows import Record

_IDS = 8  # parameters by which a model is known to be an optimizer's


class Forwards:
    """Counts them in the window of the optimizer that moves the model."""

    def __init__(self, records: Records, places: Places) -> None:
        self._records, self._places = records, places

    def install(self, patches: Patches) -> None:
        patches.around(DistributedDataParallel, "forward", self._begins)

    def before_backward(self, record: Record) -> None:
        for model in record.models.values():
            alive = model() if model is not None else None
            if alive is not None and not alive.require_backward_grad_sync:
                record.window.backward_inside = True

    def _begins(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        model = args[0]
        at = self._places.here()
        if at is None or not model.training or not torch.is_grad_enabled():
            return
        for record in self._records.following():
            if id(model) not in record.models:
                ids = [id(parameter) for parameter in islice(model.parameters(), _IDS)]
                record.models[id(model)] = weakref.ref(model) if record.has(ids) else None
            if record.models[id(model)] is None:
                continue
            record.tally.forwards.setdefault(at, ForwardTally(at, int(model.process_group.size())))
            counts = record.window.forwards.setdefault(at, [0, 0])
            counts[0] += 1
            counts[1] += bool(model.require_backward_grad_sync)
