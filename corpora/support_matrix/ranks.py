"""Two processes under DDP, for every torch column: `python -m corpora.support_matrix.ranks` prints what came
of it as JSON.

A process of its own, which forks its ranks before anything of torch has run in it.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # DDP does: here for both ranks at once
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from .matrix import TORCH_COLUMNS, column
from .verdict import first_words

RANKS = 2


class Model(torch.nn.Module):
    def __init__(self, square: Any) -> None:
        super().__init__()
        self.square = square
        self.weight = torch.nn.Parameter(torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64))

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        return (self.square(self.weight) * data).sum()


def rank(number: int, file: str, answers: Any) -> None:
    """One rank: its data is 1 or 3, so the averaged gradient is 2 times 5 w."""
    distributed.init_process_group("gloo", init_method=f"file://{file}", rank=number, world_size=RANKS)
    told: dict[str, Any] = {}
    for name in TORCH_COLUMNS:
        try:
            model = DistributedDataParallel(Model(column(name).square))
            model(torch.full((3,), 1.0 + 2 * number, dtype=torch.float64)).backward()
            weight = model.module.weight
            told[TORCH_COLUMNS[name]] = ([weight.grad.tolist()], [(10 * weight).tolist()])
        except Exception as error:
            told[TORCH_COLUMNS[name]] = first_words(error)
    if number == 0:
        answers.put(told)
    distributed.destroy_process_group()
    # Freeing the last model would free its group, which holds the GIL and waits for a thread that may need the GIL.
    os._exit(0)


def main() -> None:
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "store")
        processes = [context.Process(target=rank, args=(number, file, answers)) for number in range(RANKS)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
    if any(process.exitcode for process in processes):
        sys.exit(f"the ranks ended with {[process.exitcode for process in processes]}")
    print(json.dumps(answers.get()))


if __name__ == "__main__":
    main()
