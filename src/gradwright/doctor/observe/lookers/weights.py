"""Whether parameters are still finite: a loss may not show it (an embedding's row that is not read for a while)."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.optim import Optimizer

from gradwright.doctor.observe.looker import Looker, Surroundings
from gradwright.doctor.session.facts import Fact, WeightsNotFinite
from gradwright.doctor.session.model import Subject


@dataclass
class _Use:
    """One optimizer. ``finite_at``: how many losses had been differentiated when its parameters were finite last."""

    optimizer: weakref.ref[Optimizer]
    steps: int = 0
    finite_at: int = 0


class WeightsLooker(Looker):
    """Looks after steps 1, 2, 4, 8 and so on, and at the end. Cost of a look: one pass over the parameters on a CPU."""

    looks_at = "whether parameters stay finite"

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self._uses: dict[str, _Use] = {}
        self._losses: Counter[str] = Counter()
        self._last = ""
        self._found: dict[str, WeightsNotFinite] = {}

    def before_backward(self, site: Subject, root: Tensor | None) -> None:
        if root is not None and root.numel() == 1 and root.device.type == "cpu":
            self._losses[site.id] += 1
            self._last = site.id

    def after_step(self, optimizer: Optimizer, subject: Subject) -> None:
        use = self._uses.get(subject.id)
        if use is None or use.optimizer() is not optimizer:
            use = self._uses[subject.id] = _Use(weakref.ref(optimizer))
        use.steps += 1
        if use.steps & (use.steps - 1) == 0:
            self._look(subject.id, use)

    def remove(self) -> None:
        for subject, use in self._uses.items():
            self._look(subject, use)

    def facts(self) -> list[Fact]:
        return list(self._found.values())

    def _look(self, subject: str, use: _Use) -> None:
        optimizer = use.optimizer()
        if optimizer is None or subject in self._found or not self._last:
            return
        parameters = list(_on_a_cpu(optimizer))
        bad = sum(not _is_finite(parameter) for parameter in parameters)
        if not bad:
            use.finite_at = self._losses[self._last]
            return
        self._found[subject] = WeightsNotFinite(
            id=f"weights {subject}",
            subject=subject,
            site=self._last,
            losses=self._losses[self._last],
            finite_at=use.finite_at,
            parameters=bad,
            of=len(parameters),
        )


def _on_a_cpu(optimizer: Optimizer) -> Iterator[Tensor]:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.device.type == "cpu" and parameter.layout is torch.strided and parameter.is_floating_point():
                yield parameter.detach()


def _is_finite(parameter: Tensor) -> bool:
    total = parameter.sum().item()
    return total - total == 0 or bool(parameter.isfinite().all())  # a sum of finite numbers may overflow
