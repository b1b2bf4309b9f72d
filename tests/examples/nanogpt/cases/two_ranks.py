"""Both loops on the ranks that torchrun started: `two_ranks.py FILE` writes the losses of both there, as JSON."""

import gc
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[4] / "examples" / "nanogpt"))

import torch
import torch.distributed as dist
import torch.distributed.nn  # before there is a process group: its functions keep the one there is, and its threads
from loops import SETTINGS, SIZE, TEXT, losses_of, new_loops
from text import MicroBatches

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
dist.init_process_group("gloo")


def find_losses() -> dict[str, list[float]]:
    """Of both loops. Nothing holds them when it returns, so that their process group can end."""
    found = {}
    for name, loop in new_loops().items():
        batches = MicroBatches(TEXT.train, SETTINGS.batch_size, SIZE.block, seed=3, rank=dist.get_rank(), ranks=2)
        found[name] = losses_of(loop, batches, steps=6, micro_batches=2)
    return found


losses = find_losses()
if dist.get_rank() == 0:
    Path(sys.argv[1]).write_text(json.dumps(losses))
dist.barrier()
gc.collect()
dist.destroy_process_group()
