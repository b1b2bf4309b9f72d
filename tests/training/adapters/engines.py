"""Each adapter on its real package: prints, as JSON, how far the parameters after three windows (the last one short)
are from those after three steps with the full batch. One process, or several by torchrun.

Every case trains on 20 sequences in windows of 8, 8 and 4 over all ranks, in micro-batches of 2. Their labels are
ignored in uneven shares; in the third window, a micro-batch has none at all.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable

import torch.distributed as dist
from tests.training.adapters.accelerate_cases import accelerate, accelerate_resumed
from tests.training.adapters.lightning_cases import lightning
from tests.training.adapters.trainer_cases import (
    CLASSES,
    EMPTY_WINDOW,
    causal,
    classifier,
    items_of_this_rank,
    planted,
    trainer,
)
from tests.training.adapters.whole_batch import LABELS, RANK, STEPS, WORLD

CASES: dict[str, Callable[[], float]] = {
    "accelerate": lambda: accelerate(own=False),
    "accelerate, scaler": lambda: accelerate(own=False, scaler=True),
    "accelerate, resumed": accelerate_resumed,
    "accelerate by itself": lambda: accelerate(own=True),
    "trainer, causal": lambda: trainer(False, causal, LABELS),
    "trainer, classifier": lambda: trainer(False, classifier, CLASSES),
    "trainer, window without items": lambda: trainer(False, causal, EMPTY_WINDOW, adam=True),
    "trainer, compute_loss": lambda: trainer(False, causal, LABELS, own_loss=True),
    "trainer, compute_loss_func": lambda: trainer(False, causal, LABELS, loss_func=True),
    "trainer, label smoothing": lambda: trainer(False, causal, LABELS, smoothing=0.1),
    "trainer by itself, causal": lambda: trainer(True, causal, LABELS),
    "trainer by itself, classifier": lambda: trainer(True, classifier, CLASSES),
    "trainer by itself, window without items": lambda: trainer(True, causal, EMPTY_WINDOW, adam=True),
    "planted: items of this micro-batch's rank alone": lambda: planted("agree", items_of_this_rank),
    "planted: every micro-batch counts alike": lambda: planted("scaled", lambda loss, _: loss / STEPS),
    "lightning": lambda: lightning(own=False),
    "lightning, lists": lambda: lightning(own=False, listed=True),
    "lightning, scaler": lambda: lightning(own=False, scaler=True),
    "lightning by itself": lambda: lightning(own=True),
}


def main() -> None:
    warnings.simplefilter("ignore")  # of the packages
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    if WORLD > 1:
        dist.init_process_group("gloo")
    found = {}
    for name in sys.argv[1:] or CASES:
        found[name] = CASES[name]()
    if RANK == 0:
        print("\n" + json.dumps(found), flush=True)
    if WORLD > 1 and dist.is_initialized():
        dist.barrier()  # nobody leaves while another still exchanges
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
