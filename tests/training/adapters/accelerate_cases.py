"""Accelerate: by itself, with the adapter, with a gradient scaler, resumed from its own checkpoint."""

from __future__ import annotations

import shutil
import tempfile
from typing import Any

import torch
import torch.distributed as dist
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
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import gradwright.training as T


def accelerate(own: bool, scaler: bool = False) -> float:
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, GradientState

    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=STEPS if own else 1)
    model = Tagger()
    loader = DataLoader(TensorDataset(WORDS_IN, LABELS), batch_size=MICRO)
    optimizer = optimizer_of(model)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    if own:
        for words, labels in loader:
            with accelerator.accumulate(model):
                loss = loss_of(model, words, labels, "mean")
                accelerator.backward(torch.nan_to_num(loss))
                optimizer.step()
                optimizer.zero_grad()
    else:
        if scaler:
            accelerator.scaler = torch.amp.GradScaler("cpu")
        acc = T.AccelerateAccumulator(
            accelerator, model, optimizer, scheduler=schedule, accumulation_steps=STEPS, count=counted, max_norm=1e9
        )
        accelerator.register_for_checkpointing(acc)
        for window in acc.windows(loader):
            for words, labels in window:
                acc.backward(loss_of(model, words, labels), reduction="sum")
            acc.step()
        assert schedule.scheduler.last_epoch == len(WINDOWS) * WORLD, schedule.scheduler.last_epoch
    return error(accelerator.unwrap_model(model), *tagger_reference())


def accelerate_resumed() -> float:
    """One window, ``save_state``; then the run as begun anew, with other parameters, ``load_state`` and the rest."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, GradientState

    def made() -> tuple[Any, nn.Module, Any, Any]:
        AcceleratorState._reset_state()
        GradientState._reset_state()
        accelerator = Accelerator(cpu=True)
        model, data = Tagger(), DataLoader(TensorDataset(WORDS_IN, LABELS), batch_size=MICRO)
        model, optimizer, loader = accelerator.prepare(model, optimizer_of(model), data)
        acc = T.AccelerateAccumulator(accelerator, model, optimizer, accumulation_steps=STEPS, count=counted)
        accelerator.register_for_checkpointing(acc)
        return accelerator, model, loader, acc

    def train(model: nn.Module, loader: Any, acc: Any, windows: int) -> None:
        for window in acc.windows(loader):
            for words, labels in window:
                acc.backward(loss_of(model, words, labels), reduction="sum")
            acc.step()
            if acc.updates == windows:
                break

    folder = [tempfile.mkdtemp()]
    if WORLD > 1:
        dist.broadcast_object_list(folder, src=0)
    accelerator, model, loader, acc = made()
    train(model, loader, acc, 1)
    accelerator.save_state(folder[0])
    accelerator, model, loader, acc = made()
    with torch.no_grad():
        model.get_parameter(next(iter(dict(model.named_parameters())))).zero_()
    accelerator.load_state(folder[0])
    train(model, loader, acc, len(WINDOWS))
    assert acc.updates == len(WINDOWS)
    accelerator.wait_for_everyone()
    if RANK == 0:
        shutil.rmtree(folder[0])
    return error(accelerator.unwrap_model(model), *tagger_reference())
