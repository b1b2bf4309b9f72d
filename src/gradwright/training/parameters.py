"""Which parameters a window's gradient is of: what the model trains now, and what else its optimizer steps."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from gradwright.errors import AccumulationError, UsageError
from gradwright.training.engines import Engine
from gradwright.training.gradients import Store

Named = list[tuple[str, Tensor]]


def named_parameters(engine: Engine, optimizer: Any) -> Named:
    """Of the model those that require a gradient, by name; then the optimizer's others (a loss's temperature, its
    centres), by their place in its groups. Without these they would be summed up over all windows."""
    every: Named = list(engine.module.named_parameters())
    named = [(name, one) for name, one in every if one.requires_grad]
    known = {id(one) for _, one in every}
    for number, group in enumerate(getattr(optimizer, "param_groups", ())):
        for place, one in enumerate(group["params"]):
            if one.requires_grad and id(one) not in known:
                named.append((f"optimizer.{number}.{place}", one))
    return named


class Trained:
    """The list of them, taken anew where it may have changed.

    Cost: a look at each known parameter; the modules are walked where one was frozen or unfrozen, or the optimizer
    steps others.
    """

    def __init__(self, engine: Engine, optimizer: Any) -> None:
        self._engine, self._optimizer = engine, optimizer
        self._every = list(engine.module.parameters())
        self._seen = self._signature()
        self.named = named_parameters(engine, optimizer)

    def _signature(self) -> tuple[list[bool], list[int]]:
        groups = getattr(self._optimizer, "param_groups", ())
        return [one.requires_grad for one in self._every], [id(one) for group in groups for one in group["params"]]

    def anew(self) -> bool:
        """Whether there are others now than before."""
        if self._engine.forwards_meet or self._signature() == self._seen:
            return False  # sharded models show their parameters unsharded behind a forward
        before, self.named = self.named, named_parameters(self._engine, self._optimizer)
        self._every = list(self._engine.module.parameters())
        self._seen = self._signature()
        return [id(one) for _, one in before] != [id(one) for _, one in self.named]


def refuse_unshared(engine: Engine, store: Store, named: Named) -> None:
    """Raises: UsageError, where an engine of several ranks knows nothing of a parameter."""
    if not _engine_shares(engine, store):
        return
    others = [name for name, _ in named[len(engine.parameters()) :]]
    if others:
        raise UsageError(
            f"the optimizer steps {len(others)} parameters that are not in the model ({others[0]}): their gradients "
            "would stay on their rank. Put them into the module before it is wrapped (the loss as a submodule), or "
            "make the optimizer of the wrapped model's parameters"
        )


def refuse_others(engine: Engine, store: Store, where: str) -> None:
    """Between two windows other parameters began to train. Raises: AccumulationError, where the engine can't follow."""
    if _engine_shares(engine, store):
        raise AccumulationError(
            f"{where}: other parameters require gradients than when the accumulator was made, and its engine shares "
            "those that it was wrapped with. Wrap the model anew, and make optimizer and accumulator of that"
        )


def refuse_no_gradient(named: Named, where: str) -> None:
    """A step by nothing. Raises: AccumulationError."""
    if all(one.grad is None for _, one in named):
        raise AccumulationError(
            f"{where}: none of the {len(named)} parameters has a gradient behind this window's backwards: its losses "
            "do not reach them (another model's outputs, or detached ones?), or a hook has taken the gradients away. "
            "No step was made"
        )


def _engine_shares(engine: Engine, store: Store) -> bool:
    """Whether it is the engine that makes gradients those of all ranks, not this accumulator."""
    return engine.ranks.count > 1 and not engine.runs_backward and not store.outside
