"""Accelerate, Lightning and transformers' Trainer: by themselves, and with Gradwright's adapters."""

from __future__ import annotations

import logging
import tempfile
from typing import Any

import torch

from accumulation.by_hand import loader
from accumulation.task import Batch, Job, first, items_of, loader_of, loss_of
from gradwright.training import AccelerateAccumulator, ExactTrainer, LightningAccumulator


def accelerate(job: Job, *, ours: bool) -> None:
    from accelerate import Accelerator

    _forget_states()
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=1 if ours else job.steps)
    model, optimizer, batches = accelerator.prepare(job.model, job.optimizer, loader_of(job.data))
    if ours:
        acc = AccelerateAccumulator(accelerator, model, optimizer, accumulation_steps=job.steps, count=items_of)
        with job.timed():
            for window in acc.windows(batches):
                for batch in window:
                    acc.backward(loss_of(model, batch, "sum"), reduction="sum")
                acc.step()
        return
    with job.timed():
        for batch in batches:
            with accelerator.accumulate(model):
                accelerator.backward(loss_of(model, batch, "mean"))
                optimizer.step()
                optimizer.zero_grad()


def lightning(job: Job, *, ours: bool) -> None:
    import pytorch_lightning as pl
    from pytorch_lightning.strategies import DDPStrategy

    for name in ("pytorch_lightning", "lightning_fabric", "lightning.pytorch"):
        logging.getLogger(name).setLevel(logging.ERROR)

    class Module(pl.LightningModule):  # type: ignore[misc]  # of a package that is not here
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = not ours
            self.tokens = job.model

        def forward(self, words: Any) -> Any:
            return self.tokens(words)

        def on_train_start(self) -> None:
            if ours:
                self.acc = LightningAccumulator(self, accumulation_steps=job.steps, count=items_of)
            job.begin()

        def on_train_end(self) -> None:
            job.end()

        def training_step(self, batch: Any, index: int) -> Any:
            if not ours:
                return loss_of(self, batch, "mean")
            self.acc.update(self.acc.window_of(batch), self.share, reduction="sum")
            return None

        def share(self, batch: Batch) -> Any:
            return loss_of(self, batch, "sum")

        def configure_optimizers(self) -> Any:
            return job.optimizer

    batches: Any = loader(job)
    if ours:
        batches = torch.utils.data.DataLoader(job.data, batch_size=job.steps, collate_fn=list, sampler=batches.sampler)
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=job.world,
        strategy=DDPStrategy(process_group_backend="gloo") if job.world > 1 else "auto",
        max_epochs=1,
        accumulate_grad_batches=1 if ours else job.steps,
        use_distributed_sampler=False,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Module(), batches)


def trainer(job: Job, *, ours: bool) -> None:
    from transformers import Trainer, TrainerCallback, TrainingArguments
    from transformers.trainer_callback import PrinterCallback

    class Clock(TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            job.begin()

        def on_train_end(self, *_: Any, **__: Any) -> None:
            job.end()

    class InOrder(Trainer):  # type: ignore[misc]
        def _get_train_sampler(self, *_: Any, **__: Any) -> Any:
            return torch.utils.data.SequentialSampler(self.train_dataset)

    class Exact(ExactTrainer, InOrder):
        pass

    _forget_states()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            use_cpu=True,
            per_device_train_batch_size=1,
            gradient_accumulation_steps=job.steps,
            num_train_epochs=1,
            max_grad_norm=0,
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            remove_unused_columns=False,
            ddp_find_unused_parameters=False,
        )
        made = (Exact if ours else InOrder)(
            model=job.model,
            args=arguments,
            train_dataset=job.data,
            data_collator=first,
            optimizers=(job.optimizer, torch.optim.lr_scheduler.LambdaLR(job.optimizer, lambda _: 1.0)),
            callbacks=[Clock()],
        )
        made.remove_callback(PrinterCallback)
        made.train()


def _forget_states() -> None:
    """One Accelerator after the other in a process: each keeps its settings for the next."""
    from accelerate.state import AcceleratorState, GradientState

    AcceleratorState._reset_state()
    GradientState._reset_state()
