"""Loops that are written out, and Gradwright's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from accumulation.task import Batch, Job, items_of, loader_of, loss_of
from gradwright.training import GradientAccumulator


def on_engine(job: Job) -> Any:
    return DistributedDataParallel(job.model) if job.world > 1 else job.model


def loader(job: Job) -> Any:
    sampler: Any = torch.utils.data.DistributedSampler(job.data, job.world, job.rank, shuffle=False)
    return loader_of(job.data, sampler if job.world > 1 else None)


def windows(job: Job) -> Iterator[list[Batch]]:
    window = []
    for batch in loader(job):
        window.append(batch)
        if len(window) == job.steps:
            yield window
            window = []
    if window:
        yield window


def whole_batch_count(job: Job, *, max_norm: float | None = None, synchronised: str = "last") -> None:
    """The right one: sums, divided by the window's count over all ranks."""
    model = on_engine(job)
    with job.timed():
        for window in windows(job):
            items = torch.stack([items_of(batch) for batch in window]).sum()
            if job.world > 1:
                dist.all_reduce(items)
            job.optimizer.zero_grad()
            for at, batch in enumerate(window):
                apart = job.world > 1 and synchronised == "last" and at < len(window) - 1
                with model.no_sync() if apart else contextlib.nullcontext():
                    (loss_of(model, batch, "sum") * job.world / items).backward()
            if max_norm is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            job.optimizer.step()


def per_step_division(job: Job) -> None:
    """The usual one: each micro-batch's mean, divided by their number."""
    model = on_engine(job)
    with job.timed():
        for window in windows(job):
            job.optimizer.zero_grad()
            for at, batch in enumerate(window):
                apart = job.world > 1 and at < len(window) - 1
                with model.no_sync() if apart else contextlib.nullcontext():
                    (loss_of(model, batch, "mean") / job.steps).backward()
            job.optimizer.step()


def gradwright(job: Job, **options: Any) -> None:
    model = on_engine(job)
    acc = GradientAccumulator(model, job.optimizer, accumulation_steps=job.steps, count=items_of, **options)
    with job.timed():
        for window in acc.windows(loader(job)):
            for batch in window:
                acc.backward(loss_of(model, batch, "sum"), reduction="sum")
            acc.step()
