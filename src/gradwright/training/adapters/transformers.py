"""transformers' ``Trainer``: its window divided by what the loss's mean is taken over, whatever the model.

What ``Trainer`` 5.23 does by itself: it fetches a window whole and hands ``num_items_in_batch`` (labels other than
-100, after the causal shift, over all ranks) to models and loss functions that take it, and multiplies by the number of
ranks. For causal language models that is exact, the short last window too. What it does not see:

- a model whose forward takes keyword arguments counts as one that divides by ``num_items_in_batch``. Where its loss is
  a mean of its own (``BertForSequenceClassification`` and other classifiers), nothing is divided: the gradient of k
  micro-batches on W ranks is W·k times too large;
- models and ``compute_loss`` that take none get the mean of means (transformers#34191);
- a window whose labels are all ignored makes a step, of momentum and weight decay alone (and logs a NaN).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gradwright.errors import AccumulationError, UsageError
from gradwright.training.counting import EVERY_LOSS, Counting, Items, as_number, scaled
from gradwright.training.loading import Fetched, agree
from gradwright.training.ranks import Ranks
from gradwright.training.reduction import check_reduction
from gradwright.training.running import zero_at_leaves

if TYPE_CHECKING:

    class _Trainer:
        """What is used of ``transformers.Trainer``."""

        args: Any
        accelerator: Any
        model: nn.Module

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...
        def get_batch_samples(self, iterator: Iterator[Any], batches: int, device: Any) -> tuple[list[Any], Any]: ...
        def compute_loss(self, *args: Any, **kwargs: Any) -> Any: ...
        def training_step(self, *args: Any, **kwargs: Any) -> Tensor: ...

else:
    _Trainer = object


class ExactTrainer(_Trainer):
    """Before ``Trainer`` in the bases of a class, makes each update that of the full batch.

    ::

        class MyTrainer(ExactTrainer, Trainer):
            pass

        MyTrainer(model, TrainingArguments(gradient_accumulation_steps=8, ...), train_dataset=data).train()

    ``count``: a function of a micro-batch (a mapping), which says how many items the mean of its loss is taken over.
    None: labels other than -100 (after the causal shift where the model's loss shifts them; ``shift_labels`` where
    given), all elements of labels that are no class numbers.
    The loss of a model, of a ``compute_loss_func`` (called without ``num_items_in_batch``) or of a ``compute_loss`` of
    your own stays as it is: a mean over the items of its micro-batch. Each is weighted by its share of the window's
    items, over all ranks; a sum is refused, where its graph shows it. The rest is Trainer's: the loop, ``no_sync``, the
    clip, the step, the schedule, checkpoints, logs (the logged loss is the window's mean). A window without items on
    any rank makes no step (its schedule and ``global_step`` go on; with a float16 gradient scaler, it is a step by
    zero). A part of the loss that is no mean of items (a router's auxiliary loss) is averaged by items.
    Cost: a count for each micro-batch that is waited for; on several ranks, a gather of a few numbers a window.
    Raises: UsageError (what can't be counted, DataParallel, DeepSpeed, tensor or sequence parallel), AccumulationError.
    Tested against transformers 5.23, in one process and under DDP on two ranks; not with FSDP, which Accelerate makes
    on accelerators only.
    """

    loss_is_scaled_for_ga = True  # Trainer's: it shall not divide once more

    def __init__(self, *args: Any, count: Callable[[Any], Items] | None = None, **kwargs: Any) -> None:
        if not hasattr(super(), "compute_loss"):
            raise UsageError("ExactTrainer stands before transformers.Trainer: class MyTrainer(ExactTrainer, Trainer)")
        super().__init__(*args, **kwargs)
        self._counting = Counting.of("items", count or self._counted)
        self._ranks: Ranks | None = None
        self._items = 0.0  # of the window, over all ranks
        self._checked = self._weighted = False

    def get_batch_samples(self, iterator: Iterator[Any], batches: int, device: Any) -> tuple[list[Any], Any]:
        ranks = self._ranks or self._engine()
        fetch = super().get_batch_samples
        fetched = agree(ranks, lambda: self._fetched(fetch, iterator, batches, device))
        ranks.window += 1
        if fetched is None:
            return [], None
        assert fetched.totals is not None
        self._items = fetched.totals[EVERY_LOSS]
        return fetched.batches, torch.tensor(self._items, device=device)

    def _fetched(self, fetch: Callable[..., tuple[list[Any], Any]], *args: Any) -> Fetched:
        batches = fetch(*args)[0]
        return Fetched(batches, [self._counting.of_batch(batch) for batch in batches], len(batches))

    def compute_loss(
        self, model: nn.Module, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        if not model.training or num_items_in_batch is None:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        items = (self._counting.of_batch(inputs) or {})[EVERY_LOSS]
        loss, outputs = super().compute_loss(model, inputs, True, None)
        if not self._checked and items:
            check_reduction(loss, "mean", items)
            self._checked = True
        assert self._ranks is not None
        factor = items * self._ranks.count / self._items if self._items else 0.0
        share = scaled(loss, factor) if items else self._nothing(loss)
        self._weighted = True
        return (share, outputs) if return_outputs else share

    def training_step(self, model: nn.Module, *args: Any, **kwargs: Any) -> Tensor:
        self._weighted = False
        loss = super().training_step(model, *args, **kwargs)
        if not self._weighted:
            raise UsageError(
                f"the compute_loss of {type(self).__name__} does not pass by ExactTrainer, so its losses were not "
                "weighted: write it in a class of its own, and say class MyTrainer(ExactTrainer, ThatClass)"
            )
        if not self._items and self.accelerator.scaler is None:
            for parameter in model.parameters():
                parameter.grad = None  # optimizers leave alone what has none
        return loss

    def _engine(self) -> Ranks:
        """Raises: UsageError, where Trainer runs on what shares gradients in another way."""
        kind = getattr(self.accelerator.distributed_type, "name", "")
        sizes = [getattr(self, f"get_{name}_size", lambda: 1)() for name in ("tp", "cp", "sp")]
        if self.args.n_gpu > 1 or kind in ("DEEPSPEED", "MEGATRON_LM", "XLA") or max(sizes) > 1:
            raise UsageError(
                f"ExactTrainer is for one process, DDP and FSDP (here: {kind}, {self.args.n_gpu} GPUs in this process, "
                f"tensor, context, sequence parallel over {sizes}): start it with torchrun or accelerate launch"
            )
        alone = self.accelerator.num_processes == 1
        self._ranks = Ranks(alone=alone, seconds=float(self.args.ddp_timeout))
        return self._ranks

    def _nothing(self, loss: Tensor) -> Tensor:
        """In place of a mean of no items. Raises: AccumulationError, where a model is sharded."""
        if getattr(self.accelerator.distributed_type, "name", "") == "FSDP":
            raise AccumulationError(
                f"rank {self._ranks.rank if self._ranks else 0}: the mean of a micro-batch without items is NaN, and a "
                "sharded model needs its backward. Leave such samples out of the dataset"
            )
        return zero_at_leaves(loss)

    def _counted(self, batch: Any) -> float:
        """As Trainer counts. Raises: UsageError, without labels."""
        if not isinstance(batch, Mapping) or not isinstance(batch.get("labels"), Tensor):
            raise UsageError(
                "what is the mean of the loss taken over? The batch has no tensor 'labels': say "
                "MyTrainer(..., count=lambda batch: number of items)"
            )
        shifted = batch.get("shift_labels")
        labels = batch["labels"] if shifted is None else shifted
        if shifted is None and getattr(self, "_loss_shifts_labels", False):
            labels = labels[..., 1:]
        return labels.numel() if labels.is_floating_point() else as_number(labels.ne(-100).sum(), "labels")
