"""PyTorch Lightning: windows inside ``training_step``, by manual optimisation.

What automatic optimisation does otherwise: ``accumulate_grad_batches`` divides by that number whatever the
micro-batches hold, also in a short last window (lightning#19987).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gradwright.errors import UsageError
from gradwright.ground.torch_versions.tensors import foreach_mul_
from gradwright.training.accumulator import GradientAccumulator
from gradwright.training.engines.ddp import DataParallel
from gradwright.training.update import Stepping
from gradwright.training.window import Window


class LightningAccumulator(GradientAccumulator):
    """A ``GradientAccumulator`` over a ``LightningModule`` that a ``Trainer`` fits.

    ::

        class Tagger(pl.LightningModule):
            automatic_optimization = False

            def on_train_start(self):
                self.acc = LightningAccumulator(self, micro_batch_size=8, count=lambda batch: (batch[1] != -100).sum())

            def loss_of(self, batch):
                return F.cross_entropy(self(batch[0]), batch[1], reduction="sum")

            def training_step(self, batch, batch_idx):
                update = self.acc.update(self.acc.window_of(batch), self.loss_of, reduction="sum")
                self.log("loss", update.loss)

    A batch of the loader is a window: with ``micro_batch_size``, it is cut; with ``accumulation_steps``, it is a list
    of so many micro-batches (or fewer), as a ``collate_fn`` makes it.
    The engine stays Lightning's: its strategy (a single device, DDP), precision and gradient scaler, devices, loops,
    hooks, ``global_step``, and the place in the loader. Make the accumulator where the strategy is set up: in
    ``on_train_start`` or later. ``options`` are those of ``GradientAccumulator``; a scheduler is stepped by
    ``scheduler=``. ``optimizer``: which, where there are several; norms and the clip still go over all parameters of
    the module that the losses reach.
    Raises: UsageError: the module has no trainer, or optimises automatically; several optimizers; a strategy other than
    DDP on several ranks.
    Tested against pytorch-lightning 2.6, in one process and under DDP on two ranks.
    """

    def __init__(self, module: Any, optimizer: Any = None, **options: Any) -> None:
        if not hasattr(module, "automatic_optimization"):
            raise UsageError(f"LightningAccumulator takes a LightningModule, not {type(module).__name__}")
        if getattr(module, "_trainer", None) is None:
            raise UsageError("the module has no trainer yet: make the accumulator in on_train_start")
        if module.automatic_optimization:
            raise UsageError(
                f"{type(module).__name__} optimises automatically: Lightning would make a step of its own for each "
                "batch. Say automatic_optimization = False"
            )
        if "scaler" in options:
            raise UsageError("the gradient scaler is the trainer's precision plugin's: leave scaler= out")
        found = module.optimizers() if optimizer is None else optimizer
        if isinstance(found, (list, tuple)):
            raise UsageError(f"the module has {len(found)} optimizers: say which one (optimizer=)")
        strategy = module.trainer.strategy
        _refuse_foreign(strategy)
        scaler = getattr(strategy.precision_plugin, "scaler", None)
        if scaler is not None:
            options["scaler"] = _LightningScaler(scaler)
        super().__init__(strategy.model, found, **options)
        self._module = module
        if isinstance(self._engine, DataParallel):
            self._engine.prepared_by_forward = False
        inner = getattr(found, "optimizer", found)  # Lightning's own step has a closure by default
        self._stepping.wants_closure = Stepping(inner).wants_closure

    def window_of(self, batch: Any) -> Window[Any]:
        """The window of what ``training_step`` was given."""
        self._engine.ranks.window = self.updates + self.skipped_windows
        return self.window(self._cut(batch) if self.micro_batch_size is not None else batch)

    def _backward(self, loss: Tensor, keep_graph: bool) -> None:
        """Its strategy prepares DDP for it, and its precision plugin scales it."""
        self._module.manual_backward(loss, retain_graph=keep_graph)


def _refuse_foreign(strategy: Any) -> None:
    from torch.nn.parallel import DistributedDataParallel

    if strategy.model is strategy.lightning_module and getattr(strategy, "world_size", 1) == 1:
        return
    if not isinstance(strategy.model, DistributedDataParallel):
        raise UsageError(
            f"{type(strategy).__name__} is not known to share gradients once a window: use a single device or "
            "DDPStrategy"
        )


class _LightningScaler:
    """The precision plugin's gradient scaler, with the loss scaled by ``manual_backward``, and step and update made by
    Lightning's optimizer.

    The plugin unscales in its step whatever was done before. So gradients are unscaled here to be clipped and looked
    at, and scaled again for the step: by a power of two, which changes no bit.
    """

    def __init__(self, scaler: Any) -> None:
        self._scaler = scaler

    def is_enabled(self) -> bool:
        return bool(self._scaler.is_enabled())

    def get_scale(self) -> float:
        return float(self._scaler.get_scale())

    def scale(self, loss: Tensor) -> Tensor:
        return loss

    def unscale_(self, optimizer: Any) -> None:
        _multiply(optimizer, 1.0 / self.get_scale())

    def step(self, optimizer: Any) -> None:
        _multiply(optimizer, self.get_scale())
        optimizer.step()

    def update(self) -> None:
        """Made by the optimizer's step."""


@torch.no_grad()
def _multiply(optimizer: Any, factor: float) -> None:
    groups = optimizer.param_groups
    gradients = [one.grad for group in groups for one in group["params"] if one.grad is not None]
    if gradients:
        foreach_mul_(gradients, factor)
