"""A character-level GPT, trained with Gradwright: the numbers of the plain loop (plain.py), on less memory.

python examples/nanogpt/train.py                             # nanoGPT's run on a CPU: 2000 updates
torchrun --nproc-per-node 2 examples/nanogpt/train.py        # two processes, twice the batch
python examples/nanogpt/train.py --accumulation-steps 2      # the same losses by one process
tensorboard --logdir runs/nanogpt
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed as dist
from command import Run, arguments, parsed, started
from flags import at_least, checkpoint, folder_to_write
from fused import FusedGPT
from settings import Settings
from text import Batch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

import gradwright as gw
from gradwright.training import Curves, GradientAccumulator, Window


class Loop:
    """``step(micro_batches)``: one update; the loss before it, over all micro-batches and ranks."""

    def __init__(self, model: FusedGPT, settings: Settings, monitors: Sequence[Curves] = ()) -> None:
        self.gpt = model
        self.model = DistributedDataParallel(model) if dist.is_initialized() else model
        self.optimizer = settings.optimizer(model)
        self.schedule = settings.schedule(self.optimizer)
        self.accumulator = GradientAccumulator(
            self.model,
            self.optimizer,
            accumulation_steps=settings.accumulation_steps,
            count=lambda batch: batch[1].numel(),
            max_norm=settings.max_norm,
            scheduler=self.schedule,
            monitors=monitors,
            progress=False,
        )

    def step(self, micro_batches: Sequence[Batch]) -> Tensor:
        return self.of_window(self.accumulator.window(micro_batches))

    def of_window(self, window: Window[Batch]) -> Tensor:
        for tokens, following in window:
            logits = self.model(tokens)
            loss = gw.losses.cross_entropy(logits.flatten(0, 1), following.flatten())
            self.accumulator.backward(loss, reduction="mean")
        return self.accumulator.step().losses["loss"]

    def state_dict(self) -> dict:
        parts = (self.gpt, self.optimizer, self.schedule, self.accumulator)
        return dict(zip(("gpt", "optimizer", "schedule", "accumulator"), (part.state_dict() for part in parts)))

    def load_state_dict(self, state: dict) -> None:
        for name, kept in state.items():
            getattr(self, name).load_state_dict(kept)


def trained(run: Run, loop: Loop, checkpoint: Path | None, every: int) -> None:
    """What is left of the run's updates; a checkpoint after each ``every`` of them and behind the last."""
    path = None if checkpoint is None else checkpoint.with_suffix(f".rank{run.rank}.pt")
    if path is not None and path.exists():
        loop.load_state_dict(torch.load(path))
        run.said(f"goes on behind update {loop.accumulator.updates} of {path}")
    left = max(0, run.settings.steps - loop.accumulator.updates)
    for window in itertools.islice(loop.accumulator.windows(run.batches), left):
        loss = loop.of_window(window)
        done = loop.accumulator.updates
        run.report(done, loss, loop.gpt)
        if path is not None and (done % every == 0 or done == run.settings.steps):
            written(loop.state_dict(), path)


def written(state: dict, path: Path) -> None:
    """Beside the old one first, so that whoever dies here leaves a whole checkpoint."""
    beside = path.with_suffix(".new")
    torch.save(state, beside)
    beside.replace(path)


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--curves", type=Path, default=Path("runs/nanogpt"), help="a folder for TensorBoard")
    parser.add_argument("--no-curves", action="store_true", help="without TensorBoard")
    parser.add_argument("--checkpoint", type=checkpoint, help="begin from it where it is there, and keep it up to date")
    parser.add_argument("--checkpoint-every", type=at_least(1), default=500, help="updates")
    asked = parsed(parser)
    try:
        curves = [] if asked.no_curves else [Curves(asked.curves, every=10)]
        if curves:
            folder_to_write(asked.curves)
    except gw.errors.UsageError as missing:
        print(f"{missing}; or --no-curves", file=sys.stderr)
        return 2
    except OSError as error:
        parser.error(f"can't write the curves: {error}; give another folder, --curves FOLDER, or --no-curves")
    # What a step keeps for its backward is freed at its end: pages that went back to the system come with a fault each.
    gw.retain_freed_memory()
    with started(asked) as run:
        loop = Loop(FusedGPT(run.size), run.settings, curves)
        trained(run, loop, asked.checkpoint, asked.checkpoint_every)
        for curve in curves:
            curve.close()
        run.close(loop.gpt)
    return 0


if __name__ == "__main__":
    sys.exit(main())
