"""Looks at several losses: the norms of their gradients, and whether they pull in opposite directions."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from gradwright.errors import UsageError
from gradwright.training.monitors.monitor import Gradients, Monitor
from gradwright.training.monitors.turns import Turns
from gradwright.training.several.conflicts import Conflicts, conflicts_of


class LossConflicts(Monitor):
    """Norms and cosines of the losses' gradients, in every ``every``-th window.

    ::

        conflicts = LossConflicts()
        acc = GradientAccumulator(model, optimizer, accumulation_steps=8, separate=True, monitors=[conflicts], ...)
        ...
        print(conflicts.latest)

    ``latest``: of the last window looked at (``Conflicts``: norms, cosines over shared parameters, which parameters are
    shared and which belong to one loss's head). ``history``: of the last ``keep`` of them.

    Cost of a window looked at: reads the shared gradients once for each pair of losses and those of heads once, and
    waits for the device. Sharded gradients: two small all-reduces for each mesh.
    Raises: UsageError, where the losses' gradients are not kept apart.

    >>> import torch
    >>> from gradwright.training import GradientAccumulator
    >>> trunk, head = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
    >>> model = torch.nn.Sequential(trunk, head)
    >>> conflicts = LossConflicts()
    >>> acc = GradientAccumulator(
    ...     model, torch.optim.SGD(model.parameters()), micro_batch_size=2, normalize="samples", separate=True,
    ...     monitors=[conflicts],
    ... )
    >>> window = acc.window([torch.eye(2)])
    >>> update = acc.update(window, lambda x: {"fit": model(x).sum(), "small": -trunk(x).sum()}, reduction="sum")
    >>> conflicts.latest.shared, conflicts.latest.heads
    (('0.weight', '0.bias'), {'fit': ('1.weight', '1.bias'), 'small': ()})
    """

    def __init__(self, *, every: int = 1, keep: int = 100) -> None:
        self._turns = Turns(every)
        self.history: deque[Conflicts] = deque(maxlen=keep)

    @property
    def latest(self) -> Conflicts | None:
        return self.history[-1] if self.history else None

    def summed(self, gradients: Gradients) -> None:
        if not gradients.by_loss or "" in gradients.by_loss:
            raise UsageError(
                "LossConflicts compares the gradients of losses, and they are added up in one backward: say "
                "separate=True to GradientAccumulator"
            )
        if self._turns.take():
            self.history.append(conflicts_of(gradients.by_loss, gradients.names, scale=gradients.scale))

    def curves(self) -> Mapping[str, float]:
        if self.latest is None:
            return {}
        norms = {f"gradient_norm_of_loss/{name}": norm for name, norm in self.latest.norms.items()}
        return norms | {f"cosine/{a}-{b}": cosine for (a, b), cosine in self.latest.cosines.items()}
