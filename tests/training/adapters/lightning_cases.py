"""Lightning: by itself, with the adapter, with lists of micro-batches, with its gradient scaler."""

from __future__ import annotations

import logging
from typing import Any

import torch
from tests.training.adapters.whole_batch import (
    LABELS,
    MICRO,
    RANK,
    STEPS,
    WINDOWS,
    WORDS_IN,
    WORLD,
    Tagger,
    counted,
    error,
    loss_of,
    optimizer_of,
    tagger_reference,
)
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import gradwright.training as T


def lightning(own: bool, scaler: bool = False, listed: bool = False) -> float:

    import pytorch_lightning as pl
    from pytorch_lightning.plugins import MixedPrecision
    from pytorch_lightning.strategies import DDPStrategy

    for name in ("pytorch_lightning", "lightning_fabric", "lightning.pytorch"):
        logging.getLogger(name).setLevel(logging.ERROR)

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = own
            self.tagger = Tagger()
            self.steps_seen = 0

        def forward(self, words: Tensor) -> Tensor:
            return self.tagger(words)

        def on_train_start(self) -> None:
            if not own:
                how = {"accumulation_steps": STEPS} if listed else {"micro_batch_size": MICRO}
                self.acc = T.LightningAccumulator(self, count=counted, max_norm=1e9, **how)

        def on_before_optimizer_step(self, optimizer: Any) -> None:
            self.steps_seen += 1

        def training_step(self, batch: Any, index: int) -> Any:
            if own:
                return torch.nan_to_num(loss_of(self, *batch, reduction="mean"))
            update = self.acc.update(self.acc.window_of(batch), lambda one: loss_of(self, *one), reduction="sum")
            self.log("loss", update.loss)
            return None

        def configure_optimizers(self) -> Any:
            return optimizer_of(self)

    def pieces(samples: Any) -> Any:
        words, labels = (torch.stack(column) for column in zip(*samples, strict=True))
        return list(zip(words.split(MICRO), labels.split(MICRO), strict=True))

    size = MICRO if own else 8 // WORLD
    data = TensorDataset(WORDS_IN, LABELS)
    sampler = torch.utils.data.DistributedSampler(data, WORLD, RANK, shuffle=False) if WORLD > 1 else None
    loader = DataLoader(data, batch_size=size, sampler=sampler, collate_fn=pieces if listed else None)
    plugins = [MixedPrecision("16-mixed", "cpu", torch.amp.GradScaler("cpu"))] if scaler else []
    if scaler:
        plugins[0].forward_context = lambda: torch.autocast("cpu", enabled=False)
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=WORLD,
        strategy=DDPStrategy(process_group_backend="gloo") if WORLD > 1 else "auto",
        plugins=plugins,
        max_epochs=1,
        use_distributed_sampler=False,  # Lightning's own shuffles
        accumulate_grad_batches=STEPS if own else 1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    module = Module()
    module.double()
    trainer.fit(module, loader)
    assert trainer.global_step == len(WINDOWS), trainer.global_step
    assert module.steps_seen == len(WINDOWS), module.steps_seen
    return error(module.tagger, *tagger_reference())
