"""What both loops are started with: arguments, processes, text; what they print: losses, a sample."""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.distributed as dist
from flags import at_least, file_to_write
from model import GPT, Size
from settings import Settings
from text import MicroBatches, Text
from torch import Tensor
from torch.nn import functional as F

EVALUATED = 20  # micro-batches


def arguments(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    default, size = Settings(), Size(1)
    parser.add_argument("--steps", type=at_least(0), default=default.steps, help="updates of the weights")
    parser.add_argument("--batch-size", type=at_least(1), default=default.batch_size)
    parser.add_argument(
        "--accumulation-steps", type=at_least(1), default=1, help="micro-batches of an update, on each rank"
    )
    parser.add_argument("--block", type=at_least(1), default=size.block, help="tokens that the model looks back")
    parser.add_argument("--layers", type=at_least(1), default=size.layers)
    parser.add_argument("--heads", type=at_least(1), default=size.heads)
    parser.add_argument("--width", type=at_least(1), default=size.width)
    parser.add_argument("--seed", type=int, default=default.seed)
    parser.add_argument("--text", type=Path, help="another one than those in data/")
    parser.add_argument("--losses", type=file_to_write, help="write the loss of every update to this file, a line each")
    parser.add_argument("--double", action="store_true", help="in float64")
    parser.add_argument("--sample", type=at_least(0), default=300, help="characters to write at the end")
    return parser


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The arguments, with ``text`` read. Ends the program where no model or no batch can be made of them."""
    asked = parser.parse_args()
    try:
        Size(1, asked.block, asked.layers, asked.heads, asked.width)
    except ValueError as error:
        parser.error(f"{error}: give a --width that --heads divides")
    try:
        asked.text = Text.read(*([asked.text] if asked.text else []))
    except (OSError, ValueError) as error:
        parser.error(f"can't read the text: {error}")
    if (held_out := len(asked.text.val)) <= asked.block:  # the shorter part
        parser.error(
            f"the text is too short: its last tenth, {held_out} characters, is held out, and a block takes "
            f"{asked.block} and the one behind them; give a longer --text, or a smaller --block"
        )
    return asked


@dataclass
class Run:
    """One rank's: ``batches`` are its own micro-batches."""

    settings: Settings
    size: Size
    text: Text
    batches: MicroBatches
    rank: int
    asked: argparse.Namespace
    losses: list[float] = field(default_factory=list)
    began: float = field(default_factory=time.perf_counter)

    def said(self, line: str) -> None:
        if self.rank == 0:
            print(line, flush=True)

    def report(self, update: int, loss: Tensor, model: GPT) -> None:
        """Of an update; now and then with the loss on what was not trained on."""
        self.losses.append(float(loss))
        if update % 250 == 0 or update in (1, self.settings.steps):
            unseen = self.unseen_loss(model) if self.rank == 0 else 0.0
            seconds = time.perf_counter() - self.began
            self.said(f"step {update:4}  loss {self.losses[-1]:.4f}  unseen {unseen:.4f}  {seconds:5.1f} s")

    @torch.no_grad()
    def unseen_loss(self, model: GPT) -> float:
        """Of micro-batches that are the same each time."""
        batches = MicroBatches(self.text.val, self.settings.batch_size, self.size.block, seed=0)
        losses = [
            F.cross_entropy(model(tokens).flatten(0, 1), following.flatten())
            for _, (tokens, following) in zip(range(EVALUATED), batches, strict=False)
        ]
        return float(torch.stack(losses).mean())

    def close(self, model: GPT) -> None:
        """The losses to their file; a sample."""
        if self.rank == 0 and self.asked.losses is not None:
            self.asked.losses.write_text("".join(f"{loss!r}\n" for loss in self.losses))
        if self.rank == 0 and self.asked.sample:
            generator = torch.Generator().manual_seed(self.settings.seed)
            start = torch.zeros(1, dtype=torch.int64)
            self.said(self.text.spell(model.sample(start, self.asked.sample, generator=generator)))


@contextlib.contextmanager
def started(asked: argparse.Namespace) -> Iterator[Run]:
    """A run of what was ``parsed``, as torchrun has started it or by itself; all ranks draw weights from one seed."""
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if ranks > 1:
        dist.init_process_group("gloo")
    rank = dist.get_rank() if ranks > 1 else 0
    settings = Settings(
        batch_size=asked.batch_size, accumulation_steps=asked.accumulation_steps, steps=asked.steps, seed=asked.seed
    )
    text: Text = asked.text
    size = Size(len(text.characters), asked.block, asked.layers, asked.heads, asked.width)
    batches = MicroBatches(text.train, settings.batch_size, size.block, seed=settings.seed, rank=rank, ranks=ranks)
    torch.manual_seed(settings.seed)
    if asked.double:
        torch.set_default_dtype(torch.float64)
    try:
        yield Run(settings, size, text, batches, rank, asked)
        if ranks > 1:
            dist.barrier()  # nobody leaves while another still exchanges
    finally:
        if ranks > 1:
            dist.destroy_process_group()
