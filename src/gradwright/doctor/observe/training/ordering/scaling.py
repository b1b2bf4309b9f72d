"""Losses that a GradScaler scales, and their gradients until they are unscaled."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from gradwright.doctor.observe.training.ordering.patches import Patches
from gradwright.doctor.observe.training.ordering.records import Records
from gradwright.doctor.observe.training.ordering.windows import Record
from gradwright.ground.torch_versions.engine import sequence_number
from gradwright.ground.torch_versions.optimizers import scale_of

_LAST = 8


class Scaling:
    """Knows the last scaled losses by the numbers of their nodes: holding a node would keep its graph alive."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._last: OrderedDict[int, tuple[bool, float]] = OrderedDict()

    def install(self, patches: Patches) -> None:
        scaler = torch.amp.GradScaler
        patches.around(scaler, "scale", lambda args, kwargs: args[0], self._scaled)
        patches.around(scaler, "unscale_", self._before_unscaling, self._unscaled)
        patches.around(scaler, "step", self._before_step, self._after_step)

    def of(self, node: Any, factor_seen: bool) -> tuple[bool, float] | None:
        """(enabled, scale) of the scaler of a loss whose ``grad_fn`` is ``node``, None if there is none."""
        found = self._last.get(sequence_number(node)) if node is not None else None
        return next(reversed(self._last.values())) if factor_seen and found is None else found

    def is_factor(self, node: Any) -> bool:
        """Whether a node is the product with the scale."""
        enabled, _ = self._last.get(sequence_number(node), (False, 0.0))
        return enabled

    def _scaled(self, scaler: Any, result: Any) -> None:
        node = getattr(result, "grad_fn", None)
        if node is not None:
            scale = scale_of(scaler)  # a disabled one has none
            known = float(scale) if isinstance(scale, Tensor) and scale.device.type == "cpu" else 0.0
            self._last[sequence_number(node)] = (scaler.is_enabled(), known)
            if len(self._last) > _LAST:
                self._last.popitem(last=False)

    def _before_unscaling(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Record | None:
        record = self._record(args, kwargs)
        if record is not None:
            record.notice()
        return record

    def _unscaled(self, record: Record | None, _: Any) -> None:
        if record is not None:
            record.window.scaler = None
            record.know()

    def _before_step(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Record, int] | None:
        record = self._record(args, kwargs)
        if record is None:
            return None
        record.in_scaler = True
        return record, record.steps

    def _after_step(self, token: tuple[Record, int] | None, _: Any) -> None:
        if token is None:
            return
        record, steps = token
        record.in_scaler = False
        if record.steps == steps:
            record.stepped_over()

    def _record(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Record | None:
        optimizer = args[1] if len(args) > 1 else kwargs.get("optimizer")
        return self._records.of(optimizer) if isinstance(optimizer, Optimizer) else None
