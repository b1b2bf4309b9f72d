"""A small training run that saves a checkpoint behind each window, and dies where it is told to."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from tests.training.token_model import CLASSES, FEATURES
from torch import Tensor, nn
from torch.utils.data import DataLoader, Sampler, TensorDataset

from gradwright.training import GradientAccumulator, GradientEMA


def made(options: dict[str, Any]) -> tuple[nn.Module, torch.optim.Optimizer, Any, Any, GradientAccumulator]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(FEATURES, 8), nn.Dropout(0.5), nn.Tanh(), nn.Linear(8, CLASSES))
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    acc = GradientAccumulator(
        model, optimizer, normalize="samples", scaler=scaler, scheduler=schedule, smoothing=GradientEMA(0.5),
        max_norm=1.0, progress=False, **options,
    )  # fmt: skip
    return model, optimizer, schedule, scaler, acc


@dataclass(frozen=True)
class Run:
    """``loader``: "shuffled" by torch's random state, "own" by a generator of its own, "random" by Python's.
    ``saves``: behind each "window", or each "pass"."""

    die_after: int = -1
    how: str = ""
    options: tuple[tuple[str, int], ...] = (("accumulation_steps", 2),)
    loader: str = "shuffled"
    saves: str = "window"


class _Shuffled(Sampler[int]):
    """By Python's random state."""

    def __iter__(self) -> Iterator[int]:
        return iter(random.sample(range(len(self)), len(self)))

    def __len__(self) -> int:
        return SAMPLES


SAMPLES = 22


def _loader(run: Run) -> DataLoader[Any]:
    generator = torch.Generator().manual_seed(5)
    data = TensorDataset(
        torch.randn(SAMPLES, FEATURES, generator=generator), torch.randint(0, CLASSES, (SAMPLES,), generator=generator)
    )
    size = 4 if run.options[0][0] == "accumulation_steps" else 10
    ways: dict[str, dict[str, Any]] = {
        "shuffled": {"shuffle": True},
        "own": {"shuffle": True, "generator": generator},
        "random": {"sampler": _Shuffled()},
    }
    return DataLoader(data, batch_size=size, **ways[run.loader])


def train(folder: str, run: Run) -> list[Tensor]:
    """The gradients of three passes, with dropout; from the checkpoint, where there is one."""
    checkpoint, kept = Path(folder) / "checkpoint.pt", Path(folder) / "gradients.pt"
    random.seed(7)
    model, optimizer, schedule, scaler, acc = made(dict(run.options))
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule, "scaler": scaler, "acc": acc}
    gradients: list[Tensor] = []
    begin = 0
    if checkpoint.exists():
        state = torch.load(checkpoint)
        begin, gradients = state["epoch"], state["gradients"]
        for name, part in parts.items():
            part.load_state_dict(state[name])
    loader = _loader(run)

    def save(epoch: int) -> None:
        state = {name: part.state_dict() for name, part in parts.items()}
        torch.save(state | {"epoch": epoch, "gradients": gradients}, checkpoint)
        if len(gradients) >= run.die_after > 0:
            _die(run.how)

    for epoch in range(begin, 3):
        for window in acc.windows(loader):
            for x, y in window:
                acc.backward(F.cross_entropy(model(x), y, reduction="sum"), reduction="sum")
            assert acc.step().stepped
            gradients.append(torch.cat([one.grad.reshape(-1) for one in acc.parameters]))
            if run.saves == "window":
                save(epoch)
        if run.saves == "pass":
            save(epoch + 1)
    torch.save(gradients, kept)
    return gradients


def _die(how: str) -> None:
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exits":
        os._exit(3)
    raise KeyboardInterrupt


def whole(folder: str, run: Run) -> list[Any]:
    return [one.tolist() for one in train(folder, run)]
