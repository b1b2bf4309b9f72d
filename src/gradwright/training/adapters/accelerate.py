"""Accelerate (huggingface/accelerate): windows for a model and an optimizer that an ``Accelerator`` prepared.

What ``accelerator.accumulate`` does otherwise: ``accelerator.backward`` divides by ``gradient_accumulation_steps``,
also in a short last window and whatever the micro-batches hold (accelerate#1847, #2831, #963, #3679).
"""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from torch import nn

from gradwright.errors import UsageError
from gradwright.training.accumulator import GradientAccumulator

_FOREIGN = ("DEEPSPEED", "MEGATRON_LM", "XLA")  # engines with a backward or a step of their own


class AccelerateAccumulator(GradientAccumulator):
    """A ``GradientAccumulator`` over what ``accelerator.prepare`` gave.

    ::

        accelerator = Accelerator()
        model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
        acc = AccelerateAccumulator(accelerator, model, optimizer, scheduler=scheduler, accumulation_steps=8,
                                    count=lambda batch: (batch["labels"] != -100).sum())
        accelerator.register_for_checkpointing(acc)
        for window in acc.windows(loader):
            for batch in window:
                with accelerator.autocast():
                    loss = F.cross_entropy(model(batch["inputs"]), batch["labels"], reduction="sum")
                acc.backward(loss, reduction="sum")
            acc.step()

    The engine stays Accelerate's: its ``DistributedDataParallel`` or FSDP2, mixed precision, gradient scaler, device
    placement, checkpoints. ``accelerator.accumulate``, ``backward`` and ``clip_grad_norm_`` are left out; ``options``
    are those of ``GradientAccumulator`` (``max_norm=`` for the clip). A prepared scheduler steps ``num_processes``
    times an update, as it always does.
    The loader: Accelerate completes the last batches with samples from the start (``even_batches``), and these count as
    any other; ``drop_last=True`` keeps them out.
    Raises: UsageError: the accelerator was told to accumulate itself; the model or the
    optimizer was not prepared; DeepSpeed, Megatron-LM, XLA and FSDP1 divide or step by themselves.
    Tested against accelerate 1.15, in one process and under DDP on two ranks; not with its FSDP2, which it makes on
    accelerators only.
    """

    def __init__(self, accelerator: Any, model: nn.Module, optimizer: Any, **options: Any) -> None:
        if not hasattr(accelerator, "gradient_accumulation_steps"):
            raise UsageError(f"AccelerateAccumulator takes an accelerate.Accelerator, not {type(accelerator).__name__}")
        if accelerator.gradient_accumulation_steps != 1:
            raise UsageError(
                f"Accelerator(gradient_accumulation_steps={accelerator.gradient_accumulation_steps}) divides each loss "
                "by that number: leave it out there, and say accumulation_steps= (or micro_batch_size=) here"
            )
        if not hasattr(optimizer, "step_was_skipped"):
            raise UsageError(f"{type(optimizer).__name__} was not prepared: use what accelerator.prepare(...) gives")
        if "scaler" in options:
            raise UsageError("the gradient scaler is the accelerator's: leave scaler= out")
        _refuse_foreign(accelerator, model)
        super().__init__(model, optimizer.optimizer, scaler=accelerator.scaler, **options)


def _refuse_foreign(accelerator: Any, model: nn.Module) -> None:
    kind = getattr(accelerator.distributed_type, "name", str(accelerator.distributed_type))
    if kind in _FOREIGN:
        raise UsageError(f"{kind} has a backward and a step of its own, and divides by itself: use its accumulation")
    if accelerator.num_processes == 1:
        return
    from torch.nn.parallel import DistributedDataParallel

    if isinstance(model, DistributedDataParallel):
        return
    if dist.is_available() and kind == "FSDP":
        from torch.distributed.fsdp import FSDPModule

        if isinstance(model, FSDPModule):
            return
        raise UsageError("FSDP1 can't be accumulated exactly: FullyShardedDataParallelPlugin(fsdp_version=2)")
    raise UsageError(
        f"the model ({type(model).__name__}) does not share gradients between the {accelerator.num_processes} "
        "processes: use the one that accelerator.prepare(...) gives"
    )
