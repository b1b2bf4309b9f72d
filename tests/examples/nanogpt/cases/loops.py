"""A tiny model, a short text, and both loops over the same weights. The example's folder is on sys.path."""

import itertools

import torch
from fused import fused_like
from model import GPT, Size
from plain import PlainLoop
from settings import Settings
from text import MicroBatches, Text
from train import Loop

TEXT = Text.of("It is a truth universally acknowledged, that a single man in possession of a good fortune. " * 8)
SIZE = Size(len(TEXT.characters), block=8, layers=2, heads=2, width=16)
SETTINGS = Settings(batch_size=4, accumulation_steps=2, steps=20, learning_rate=1e-2, warmup=2)


def new_loops(**more):
    """Plain and ours, from the same weights."""
    torch.manual_seed(5)
    model = GPT(SIZE)
    return {"ours": Loop(fused_like(model), SETTINGS, **more), "plain": PlainLoop(model, SETTINGS)}


def losses_of(loop, batches: MicroBatches, *, steps: int, micro_batches: int) -> list[float]:
    batches = iter(batches)
    return [float(loop.step(list(itertools.islice(batches, micro_batches)))) for _ in range(steps)]
