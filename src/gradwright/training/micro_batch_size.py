"""The largest micro-batch that fits into memory, found by trying."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from gradwright.errors import UsageError
from gradwright.ground.memory import memory_of
from gradwright.training.batches import cut, sample_count, tensors_of
from gradwright.training.before import Before
from gradwright.training.engines import engine_of
from gradwright.training.engines.engine import Engine
from gradwright.training.out_of_memory import is_out_of_memory, let_go


def find_micro_batch_size(
    model: nn.Module,
    loss_of: Callable[[Any], Any],
    batch: Any,
    *,
    max_bytes: int | None = None,
    largest: int | None = None,
    split: Callable[[Any, int], list[Any]] = cut,
    time_limit: float = 600.0,
) -> int:
    """How many samples of ``batch`` fit into memory at a time, in forward and backward.

    ``model``: by itself, in ``DistributedDataParallel`` or sharded by ``fully_shard``. ``loss_of``: what ``update``
    takes; of a micro-batch. ``batch``: as large as a window of yours, and as long as your longest (memory goes with
    both).
    ``max_bytes``: what a micro-batch may take above what is allocated now, its gradients included; needed on the CPU,
    where too much ends the process. Without it, an accelerator is tried until it runs out of memory.
    ``largest``: no more than so many; None: all of ``batch``.
    Call it after a first step where the optimizer keeps state, or leave room for it in ``max_bytes``: an update later
    on that still runs out of memory is begun again with smaller micro-batches by ``GradientAccumulator.update``.

    Sizes are doubled until one does not fit, then the gap is halved. Each is tried twice in a row, the second time with
    the gradients of the first in place. Random state, ``.grad`` and buffers are put back. On several ranks a size fits
    where it fits on all, so all get the same number.
    Cost: about 2 log2(samples) trials of two forward and backward passes each.
    Raises: UsageError, where not even one sample fits, without ``max_bytes`` on the CPU, and without it for sharded
    models on several ranks (a rank that fails in a forward would leave the others waiting); what ``loss_of`` raises.

    >>> net = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 1))
    >>> size = find_micro_batch_size(net, lambda x: net(x).sum(), torch.randn(512, 64), max_bytes=500_000)
    >>> 64 <= size < 256
    True
    """
    engine = engine_of(model, time_limit)
    device = next((one.device for one in model.parameters()), torch.device("cpu"))
    _check(engine, device, max_bytes)
    samples = [row[0] for row in engine.ranks.gather([sample_count(batch)], "finding a micro-batch size")]
    most = int(max(samples)) if largest is None else min(largest, int(max(samples)))
    before = Before(model)
    took = 0

    def fits(size: int) -> bool:
        nonlocal took
        micro_batch = max(split(batch, size), key=_elements)
        here, took = _tried(engine, loss_of, micro_batch, device, max_bytes)
        before.put_back()
        return all(row[0] for row in engine.ranks.gather([here], "finding a micro-batch size"))

    known, too_large = 0, 1
    while too_large <= most and fits(too_large):
        known, too_large = too_large, min(2 * too_large, most) if too_large < most else most + 1
    if known == 0:
        limit = f"max_bytes is {max_bytes}, and it takes {took}" if max_bytes is not None else "out of memory"
        raise UsageError(f"a micro-batch of one sample does not fit: {limit}. Checkpoint activations (gw.checkpoint)")
    while too_large - known > 1:
        middle = (known + too_large) // 2
        known, too_large = (middle, too_large) if fits(middle) else (known, middle)
    return known


def _check(engine: Engine, device: torch.device, max_bytes: int | None) -> None:
    if max_bytes is not None and max_bytes <= 0:
        raise UsageError(f"max_bytes is {max_bytes}: it is a number of bytes above 0")
    if max_bytes is None and device.type == "cpu":
        raise UsageError("say max_bytes= on the CPU: a process that takes too much memory is ended by the system")
    if max_bytes is None and engine.forwards_meet and engine.ranks.count > 1:
        raise UsageError(
            "say max_bytes= for a sharded model: a rank that runs out of memory in a forward would leave the others "
            "waiting for it"
        )


def _tried(
    engine: Engine, loss_of: Callable[[Any], Any], micro_batch: Any, device: torch.device, max_bytes: int | None
) -> tuple[bool, int]:
    """Whether it fits, and the bytes it took where they are measured."""

    def work() -> None:
        for share in (False, engine.forwards_meet):  # sharded models keep to themselves what they did not share yet
            with engine.micro_batch(share=share):
                torch.autograd.backward(_total(loss_of(micro_batch)))

    for parameter in engine.model.parameters():
        parameter.grad = None
    took = 0
    try:
        if max_bytes is None:
            work()
        else:
            took = memory_of(work, device).peak_bytes
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        fits = False
    else:
        fits = max_bytes is None or took <= max_bytes
    if not fits:
        let_go()
    return fits, took


def _total(loss: Any) -> Tensor:
    """Of all that ``loss_of`` may give: a loss, a pair with its number of items, a mapping of either."""
    losses = list(loss.values()) if hasattr(loss, "values") and not isinstance(loss, Tensor) else [loss]
    values = [one[0] if isinstance(one, tuple) else one for one in losses]
    return torch.stack([one.reshape(()) for one in values]).sum()


def _elements(micro_batch: Any) -> int:
    return sum(tensor.numel() for _, tensor in tensors_of(micro_batch))
