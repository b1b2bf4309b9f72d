"""Curves of a run for TensorBoard; the x-axis is the number of updates that the optimizer has made."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gradwright.errors import UsageError
from gradwright.functions.tap.sinks import is_writer, write_scalars
from gradwright.training.monitors.monitor import Gradients, Monitor
from gradwright.training.monitors.turns import checked
from gradwright.training.products import is_sharded, squares
from gradwright.training.update import Update


class Curves(Monitor):
    """Writes losses, gradient norms, learning rates and what other monitors see, in every ``every``-th update.

    ::

        noise, conflicts = GradientNoiseScale(), LossConflicts()
        curves = Curves("runs/first", of=[noise, conflicts])
        acc = GradientAccumulator(model, optimizer, monitors=[noise, conflicts, curves], separate=True, ...)

    ``target``: a folder, in which a ``torch.utils.tensorboard.SummaryWriter`` is opened; or a writer (anything with
    ``add_scalar(tag, value, step)``). On several ranks the first one writes. ``of``: monitors whose curves are drawn
    too. ``layer``: the name under which a parameter is drawn, from its own; that of its module where it is left out.

    Tags: ``loss/NAME`` (and ``loss/total``, weighted, of several); ``gradient_norm/LAYER``, as summed up, and
    ``gradient_norm_used/LAYER``, smoothed and clipped (of all layers: ``gradient/norm``, ``gradient/norm_used``);
    ``update_to_weight/LAYER``, the norm of the change over the norm of the weights before it; ``learning_rate/GROUP``,
    as this update used it; ``items/NAME``. Windows without an update are not drawn. After ``load_state_dict`` the axis
    goes on, and TensorBoard hides what a killed run wrote behind it.

    Cost of an update drawn: reads the gradients twice and the parameters four times, writes a copy of the parameters
    and keeps it during the step; waits for the device once. Of others: nothing. Sharded: four all-reduces a mesh.
    Raises: UsageError, for a folder where the package tensorboard is not installed, and for another target.

    >>> class Printer:
    ...     def add_scalar(self, tag, value, step):
    ...         print(step, tag, round(value, 3))
    >>> from gradwright.training import GradientAccumulator
    >>> model = torch.nn.Linear(1, 1, bias=False)
    >>> _ = torch.nn.init.constant_(model.weight, 2.0)
    >>> sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> acc = GradientAccumulator(model, sgd, accumulation_steps=2, normalize="samples", monitors=[Curves(Printer())])
    >>> x = torch.ones(1, 1)
    >>> update = acc.update(acc.window([x, x]), lambda x: model(x).square().sum(), reduction="sum")
    1 loss/loss 4.0
    1 items/loss 2.0
    1 gradient_norm/model 4.0
    1 gradient/norm 4.0
    1 gradient_norm_used/model 4.0
    1 gradient/norm_used 4.0
    1 learning_rate/0 0.1
    1 update_to_weight/model 0.2
    """

    def __init__(
        self,
        target: Any,
        *,
        of: Sequence[Monitor] = (),
        every: int = 1,
        layer: Callable[[str], str] | None = None,
    ) -> None:
        if not is_writer(target):
            if isinstance(target, type) or not isinstance(target, (str, os.PathLike)):
                raise UsageError(
                    f"Curves can't write to {target!r}: give a folder, or a SummaryWriter (anything with add_scalar)"
                )
            if importlib.util.find_spec("tensorboard") is None:
                raise UsageError(
                    f"Curves({os.fspath(target)!r}) writes event files, which takes the package tensorboard: "
                    "pip install tensorboard; or give a writer of your own (anything with add_scalar)"
                )
        self._target, self._of = target, list(of)
        self._writer: Any = target if is_writer(target) else None
        self._layer = layer or _module
        self._every = checked(every)
        self._updates = 0
        self._forget()

    def _forget(self) -> None:
        self._drawn: dict[str, Tensor | float] = {}
        self._before: list[Tensor] = []
        self._gradients: Gradients | None = None

    # -- what happens ------------------------------------------------------------------------------------------------

    def _looking(self, gradients: Gradients) -> bool:
        """In an update to be drawn; other ranks than the first look on where norms are summed over all of them."""
        if self._updates % self._every:
            return False
        return gradients.ranks.rank == 0 or any(is_sharded(parameter) for _, parameter in gradients.named)

    @torch.no_grad()
    def summed(self, gradients: Gradients) -> None:
        if self._looking(gradients):
            self._draw("norm", gradients)

    @torch.no_grad()
    def stepping(self, gradients: Gradients) -> None:
        if not self._looking(gradients):
            return
        self._draw("norm_used", gradients)
        if not self._before:  # an optimizer that evaluates several times has moved since
            self._before = [parameter.detach().clone() for _, parameter in gradients.named]
            self._drawn |= {
                f"learning_rate/{at}": group["lr"] for at, group in enumerate(gradients.optimizer.param_groups)
            }
        self._gradients = gradients

    def _draw(self, what: str, gradients: Gradients) -> None:
        named = [(name, one.grad) for name, one in gradients.named if one.grad is not None]
        norms = self._norms([name for name, _ in named], [one for _, one in named])
        drawn: dict[str, Tensor | float] = {f"gradient_{what}/{layer}": norm for layer, norm in norms.items()}
        if norms:
            drawn[f"gradient/{what}"] = _together(norms)
        for tag, norm in drawn.items():
            self._drawn.setdefault(tag, norm)  # the first evaluation's, where there are several

    def _norms(self, names: Sequence[str], tensors: Sequence[Tensor]) -> dict[str, Tensor]:
        """The norm of each layer."""
        by_layer: dict[str, Tensor] = {}
        for name, square in zip(names, squares(tensors).unbind(), strict=True):
            layer = self._layer(name)
            by_layer[layer] = by_layer[layer] + square if layer in by_layer else square
        return {layer: square.sqrt() for layer, square in by_layer.items()}

    @torch.no_grad()
    def updated(self, update: Update) -> None:
        drawn, before, gradients = self._drawn, self._before, self._gradients
        self._forget()
        if not update.stepped:
            return
        self._updates += 1
        if gradients is None:
            return
        names = gradients.names
        weights = self._norms(names, before)
        for was, (_, parameter) in zip(before, gradients.named, strict=True):
            was.sub_(parameter)
        changes = self._norms(names, before)
        for layer, change in changes.items():
            drawn[f"update_to_weight/{layer}"] = change / weights[layer]
        if gradients.ranks.rank == 0:
            told: dict[str, Tensor | float] = {f"loss/{name}": loss for name, loss in update.losses.items()}
            if len(update.losses) > 1:
                told["loss/total"] = update.loss
            told |= {f"items/{name}": items for name, items in update.items.items()}
            others = {tag: value for monitor in self._of for tag, value in monitor.curves().items()}
            write_scalars(self._opened(), _read(told | drawn | others), self._updates)

    # -- where it goes -----------------------------------------------------------------------------------------------

    def _opened(self) -> Any:
        if self._writer is None:
            from torch.utils.tensorboard.writer import SummaryWriter

            again = self._updates if self._updates > 1 else None
            self._writer = SummaryWriter(os.fspath(self._target), purge_step=again)
        return self._writer

    def close(self) -> None:
        """Ends the event file that it opened; one that was given is its owner's."""
        if self._writer is not None and self._writer is not self._target:
            self._writer.close()
            self._writer = None

    def state_dict(self) -> dict[str, Any]:
        return {"updates": self._updates}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._updates = state["updates"]


def _together(norms: Mapping[str, Tensor]) -> Tensor:
    first = next(iter(norms.values()))
    norm: Tensor = torch.linalg.vector_norm(torch.stack([norm.to(first.device) for norm in norms.values()]))
    return norm


def _module(parameter: str) -> str:
    return parameter.rpartition(".")[0] or "model"


def _read(scalars: Mapping[str, Tensor | float]) -> dict[str, float]:
    """As numbers, in one reading."""
    tensors = {tag: value for tag, value in scalars.items() if isinstance(value, Tensor)}
    device = next(iter(tensors.values())).device if tensors else None
    stacked = [value.detach().reshape(()).double().to(device) for value in tensors.values()]
    read = dict(zip(tensors, torch.stack(stacked).tolist(), strict=True)) if stacked else {}
    return {tag: read[tag] if tag in read else float(value) for tag, value in scalars.items()}
