"""A small causal model of tokens, and micro-batches whose numbers of tokens differ."""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

WORDS, LONGEST, SEQUENCES, IGNORED = 512, 64, 4, -100
Batch = dict[str, Tensor]


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        heads = self.attend(self.before(x)).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)  # [3, batch, 4, words, :]
        query, key, value = heads.unbind()
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.join(mixed.transpose(1, 2).flatten(2))
        return x + self.narrow(F.gelu(self.wide(self.after(x))))


class Tokens(nn.Module):
    """Called without ``labels``, it gives logits; with them, as transformers' models do: a loss, divided by
    ``num_items_in_batch`` where that is given."""

    def __init__(self, width: int, dtype: torch.dtype) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.place = nn.Embedding(WORDS, width), nn.Embedding(LONGEST, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))
        self.out = nn.Linear(width, WORDS)
        self.to(dtype)

    def forward(
        self, words: Tensor, labels: Tensor | None = None, num_items_in_batch: Tensor | None = None, **_: Any
    ) -> Any:
        x = self.table(words) + self.place.weight[: words.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.out(x)
        if labels is None:
            return logits
        if num_items_in_batch is None:
            return {"loss": cross_entropy(logits, labels, "mean"), "logits": logits}
        return {"loss": cross_entropy(logits, labels, "sum") / num_items_in_batch, "logits": logits}


class OwnMean(Tokens):
    """A model that takes no ``num_items_in_batch``, as a classifier of one's own."""

    def forward(self, words: Tensor, labels: Tensor | None = None) -> Any:  # type: ignore[override]
        return super().forward(words, labels)


def cross_entropy(logits: Tensor, labels: Tensor, reduction: str) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction=reduction)


def loss_of(model: nn.Module, batch: Batch, reduction: str) -> Tensor:
    return cross_entropy(model(batch["words"]), batch["labels"], reduction)


def items_of(batch: Batch) -> Tensor:
    return (batch["labels"] != IGNORED).sum()


class MicroBatches(Dataset[Batch]):
    """Each padded to its own longest sequence; a prompt of each sequence is ignored."""

    def __init__(self, count: int, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.batches = [_micro_batch(generator) for _ in range(count)]

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> Batch:
        return self.batches[index]


def _micro_batch(generator: torch.Generator) -> Batch:
    """Chat turns: most are short, some fill the context."""

    def drawn() -> float:
        return float(torch.rand((), generator=generator))

    lengths = [max(4, int(LONGEST * drawn() ** 2)) for _ in range(SEQUENCES)]
    words = torch.randint(1, WORDS, (SEQUENCES, max(lengths)), generator=generator)
    labels = words.roll(-1, dims=1)
    for row, length in enumerate(lengths):
        words[row, length:] = 0
        labels[row, length - 1 :] = IGNORED
        labels[row, : int(0.8 * length * drawn())] = IGNORED
    return {"words": words, "labels": labels}


def first(rows: Sequence[Batch]) -> Batch:
    return rows[0]


def loader_of(data: MicroBatches, sampler: Any = None) -> DataLoader[Batch]:
    return DataLoader(data, batch_size=1, collate_fn=first, sampler=sampler)


def joined(batches: Sequence[Batch]) -> Batch:
    """One batch of all their sequences; what is padded comes after all that counts, so that nothing sees it."""
    longest = max(batch["words"].shape[1] for batch in batches)

    def padded(name: str, value: int) -> Tensor:
        rows = [F.pad(batch[name], (0, longest - batch[name].shape[1]), value=value) for batch in batches]
        return torch.cat(rows)

    return {"words": padded("words", 0), "labels": padded("labels", IGNORED)}


class Watched(torch.optim.SGD):
    """Keeps the gradients of its last step, where it is asked to."""

    keeps = False
    seen: Tensor | None = None

    def step(self, closure: Any = None) -> Any:
        if closure is not None:  # Lightning's, in which it makes its backward
            with torch.enable_grad():
                closure()
        if self.keeps:
            parameters = [one for group in self.param_groups for one in group["params"]]
            self.seen = torch.cat([one.grad.reshape(-1).double() for one in parameters])
        return super().step()


@dataclass
class Job:
    """Updates from ``data``, a window of ``steps`` micro-batches each (the last one may be short). The way that does it
    says where its loop begins and ends."""

    model: nn.Module
    data: MicroBatches
    steps: int
    rank: int = 0
    world: int = 1
    seconds: float = 0.0
    optimizer: Watched = field(init=False)

    def __post_init__(self) -> None:
        self.model = copy.deepcopy(self.model)
        self.optimizer = Watched(self.model.parameters(), lr=1e-3)

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        self.begin()
        yield
        self.end()

    def begin(self) -> None:
        self._began = time.process_time()

    def end(self) -> None:
        self.seconds = time.process_time() - self._began


def full_gradient(model: nn.Module, batches: Sequence[Batch]) -> Tensor:
    loss = loss_of(model, joined(batches), "mean")
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    return torch.cat([gradient.reshape(-1).double() for gradient in gradients])
