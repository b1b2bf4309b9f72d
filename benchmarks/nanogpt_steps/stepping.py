"""One way in a process of its own: it takes a step when it is told to, and answers with seconds and page faults.

A line of JSON each way.  {"threads": n}: a step -> {"seconds", "faults", "loss"};  {"memory": true} -> bytes.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import gradwright as gw
from gradwright.ground.memory import memory_of

sys.path.insert(0, str(Path(__file__).parents[1]))

from deep.memory import resident_rise

from nanogpt_steps.ways import COMPILED, KEEP_FREED, WAYS, Settings, Size  # type: ignore[attr-defined]  # examples/


def main(name: str) -> None:
    torch.set_num_threads(1)
    if name in KEEP_FREED:
        gw.retain_freed_memory()
    from text import MicroBatches, Text

    settings = Settings()
    text = Text.read()
    batches = iter(MicroBatches(text.train, settings.batch_size, Size(1).block, seed=settings.seed))
    if name != COMPILED:  # kernels are made before memory is looked at
        tiny = Size(len(text.characters), block=8, layers=1, heads=1, width=16)
        small = iter(MicroBatches(text.train, 2, tiny.block, seed=0))
        warm = WAYS[name](tiny, settings)
        for _ in range(3):
            warm.step([next(small)])
    torch.manual_seed(settings.seed)
    loop = WAYS[name](Size(len(text.characters)), settings)

    def step() -> float:
        return float(loop.step([next(batches)]))

    rise = resident_rise(lambda: [step() for _ in range(3)])
    for line in sys.stdin:
        asked = json.loads(line)
        answer = memory(loop, step, batches) | {"resident": rise} if "memory" in asked else stepped(step, **asked)
        print(json.dumps(answer), flush=True)


def stepped(step: Callable[[], float], threads: int) -> dict[str, float]:
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)
    faults, start = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.perf_counter()
    loss = step()
    seconds = time.perf_counter() - start
    return {
        "seconds": seconds,
        "faults": resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults,
        "loss": loss,
    }


def memory(loop: Any, step: Callable[[], float], batches: Any) -> dict[str, int]:
    """Saved: storages that tensors saved for a backward lie in, each once, without the parameters. Peak: of tensors."""
    peak = memory_of(step, torch.device("cpu")).peak_bytes
    gpt = getattr(loop, "loop", loop).gpt
    known = {weight.untyped_storage().data_ptr() for weight in gpt.parameters()}
    saved: dict[int, int] = {}
    kept: list[Tensor] = []  # so that no storage takes the place of another

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept.append(tensor)
        if storage.data_ptr() not in known:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        step()
    return {"saved": sum(saved.values()), "peak": peak}


if __name__ == "__main__":
    main(sys.argv[1])
