"""Updates of a model that is split over ranks as a pipeline, by windows of batches that run through it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from gradwright.errors import AccumulationError, UsageError
from gradwright.training import loading
from gradwright.training.accumulator import GradientAccumulator
from gradwright.training.batches import tensors_of
from gradwright.training.counting import Count, Items, Normalize, as_number
from gradwright.training.engines.pipelining import Pipeline, combined
from gradwright.training.monitors.monitor import Monitor
from gradwright.training.reduction import check_reduction
from gradwright.training.update import OnNonfinite, Smoothing

_LOSS = "loss"


class PipelineAccumulator(GradientAccumulator):
    """Accumulation over what runs through a pipeline of ``torch.distributed.pipelining``.

    ::

        stage = PipelineStage(part_of_the_model, rank, ranks, device)
        schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=summed_loss, scale_grads=False)
        acc = PipelineAccumulator(schedule, stage, optimizer, accumulation_steps=2, count=labels_that_count)
        for window in acc.windows(loader):       # the same batches on every rank of the pipeline
            for inputs, targets in window:
                acc.run(inputs, target=targets)  # forwards and backwards of 4 micro-batches, over all stages
            acc.step()

    A window is ``accumulation_steps`` batches, each a run of the schedule. ``stage``: the stage of this rank, or a list
    of its stages (interleaved schedules). ``loss_fn`` gives the *sum* over a micro-batch's items, and the schedule has
    ``scale_grads=False``: items are counted where the targets are (on the last stage), and gradients divided by their
    number once, on every stage alike. Stages may have replicas: each in ``DistributedDataParallel`` or sharded by
    ``fully_shard``; the replicas' loaders then hold different batches, as many on each. ``group``: the ranks of all
    stages and replicas; None: all ranks, or the pipeline's own without replicas.

    ``normalize``: "items" (by ``count``, or ``run(items=...)``) or "samples". The norm that ``max_norm`` clips, and
    that is looked at for NaN, is that of all stages together. The other options are ``GradientAccumulator``'s; what
    needs the loss at hand is not here (several losses, weights, coupled losses, gradient scalers: train in bfloat16).

    Every batch has as many samples, a multiple of the schedule's micro-batches (``drop_last=True``): the buffers of
    the stages have that size. (torch 2.13's ScheduleGPipe fails in its second run over DistributedDataParallel, with an
    INTERNAL ASSERT of the reducer; Schedule1F1B does not.)
    Cost: on all ranks, a gather of a few numbers for each batch and window. Memory: none of its own.
    Raises: UsageError, AccumulationError (NonFiniteGradient, RankLost), naming rank and window.
    Source: torch's PipelineSchedule.scale_grads divides by the number of micro-batches, a mean of means.
    """

    _engine: Pipeline

    def __init__(
        self,
        schedule: Any,
        stage: Any,
        optimizer: torch.optim.Optimizer,
        *,
        accumulation_steps: int = 1,
        normalize: Normalize = "items",
        count: Count | None = None,
        max_norm: float | None = None,
        scheduler: Any = None,
        smoothing: Smoothing | None = None,
        monitors: Sequence[Monitor] = (),
        on_nonfinite: OnNonfinite = "error",
        group: Any = None,
        time_limit: float = 600.0,
        progress: bool | None = None,
    ) -> None:
        if getattr(schedule, "scale_grads", None) is not False:
            raise UsageError(
                f"{type(schedule).__name__} divides by its number of micro-batches, a mean of means: make it with "
                "scale_grads=False, and a loss_fn that sums up"
            )
        if normalize == "steps":
            raise UsageError("normalize='steps' is a mean of means: in a pipeline say 'items' or 'samples'")
        self.schedule, self._group = schedule, group
        self._stages = list(stage) if isinstance(stage, (list, tuple)) else [stage]
        self._samples: int | None = None
        super().__init__(
            combined([one.submod for one in self._stages]),
            optimizer,
            accumulation_steps=accumulation_steps,
            normalize=normalize,
            count=count,
            max_norm=max_norm,
            scheduler=scheduler,
            smoothing=smoothing,
            monitors=monitors,
            on_nonfinite=on_nonfinite,
            time_limit=time_limit,
            progress=progress,
        )

    def _engine_of(self, model: nn.Module, seconds: float) -> Pipeline:
        return Pipeline(model, self._stages, self._group, seconds)

    def run(self, *args: Any, target: Any = None, items: Items | None = None, **kwargs: Any) -> None:
        """One batch of the window through the pipeline: all forwards and backwards.

        ``args``: the model's inputs, ``target``: what ``loss_fn`` takes beside the output; on every rank, the schedule
        gets what its stages need. ``kwargs``: what every stage takes. ``items``: how many the batch holds, where
        ``count`` does not say it.
        Raises: UsageError, AccumulationError, RankLost.
        """
        running = self._open("run")
        self._check_samples(args, target)
        running.counted(_LOSS, self._items_of(items))
        ranks = self._engine.ranks
        ranks.meet(running.window.steps - running.step, f"going to run micro-batch {running.step}")
        losses: list[Tensor] = []
        with ranks.naming("running the pipeline"):
            self.schedule.step(
                *(args if self._engine.first else ()),
                target=target if self._engine.last else None,
                losses=losses if self._engine.last else None,
                **kwargs,
            )
        if not running.entries:
            self._check_sum(losses)
        parts = [loss.detach().double().reshape(()) for loss in losses]
        none = torch.zeros((), dtype=torch.float64, device=self._stages[0].device)
        running.took({_LOSS: torch.stack(parts).sum() if parts else none})
        self._tell("micro_batch", running)

    def backward(self, *_: Any, **__: Any) -> NoReturn:
        raise UsageError("in a pipeline the schedule makes the backwards: call acc.run(inputs, target=targets) instead")

    def update(self, *_: Any, **__: Any) -> NoReturn:
        raise UsageError("in a pipeline a window is run by acc.run(inputs, target=targets) for each batch, then step()")

    def _counted_once(self, fetched: loading.Fetched) -> loading.Fetched:
        """The targets are where the last stage is; the other stages of a pipeline hold the same batches."""
        if not self._engine.last:
            fetched.counts = [counts and dict.fromkeys(counts, 0.0) for counts in fetched.counts]
        return fetched

    def _agreed(self, fetching: Callable[[], loading.Fetched]) -> loading.Fetched | None:
        fetched = super()._agreed(lambda: self._counted_once(fetching()))
        if fetched is not None and fetched.all_steps != fetched.most_steps * self._engine.ranks.count:
            raise AccumulationError(
                f"{self._where()}: the ranks hold different numbers of batches in this window (here "
                f"{len(fetched.batches)}, elsewhere up to {fetched.most_steps}), and every stage has to run each. Give "
                "the ranks of a pipeline the same loader, and its replicas as many batches"
            )
        return fetched

    def _items_of(self, said: Items | None) -> float:
        counts = self._open("run").counts
        if counts is not None:
            return next(iter(counts.values()))
        if said is None:
            raise UsageError(
                "what is the loss divided by? Say how many items this batch holds (run(..., items=n)), how they are "
                "counted (PipelineAccumulator(count=...)), or normalize='samples'"
            )
        return as_number(said, "items") if self._engine.last else 0.0

    def _check_samples(self, args: tuple[Any, ...], target: Any) -> None:
        samples = next((tensor.shape[0] for _, tensor in tensors_of([*args, target])), 0)
        if self._samples is None:
            self._samples = samples
        if samples != self._samples:
            raise AccumulationError(
                f"{self._where()}: a batch of {samples} samples, and the pipeline was begun with {self._samples}: the "
                "buffers between its stages have that size. Use drop_last=True"
            )

    def _check_sum(self, losses: list[Tensor]) -> None:
        """A mean over one sample is its sum, and says nothing."""
        if losses and self._samples is not None and self._samples > len(losses):
            check_reduction(losses[0], "sum", None)
