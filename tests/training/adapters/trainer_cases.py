"""transformers' Trainer: by itself, with the adapter, with every way to make a loss; planted faults."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from tests.training.adapters.whole_batch import (
    LABELS,
    MICRO,
    SEQUENCES,
    STEPS,
    WINDOWS,
    WORDS,
    WORDS_IN,
    WORLD,
    error,
    full_batch,
    optimizer_of,
)
from torch import Tensor, nn

import gradwright.training as T


class Rows(torch.utils.data.Dataset[dict[str, Tensor]]):
    def __init__(self, words: Tensor, labels: Tensor) -> None:
        self.words, self.labels = words, labels

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, row: int) -> dict[str, Tensor]:
        return {"input_ids": self.words[row], "labels": self.labels[row]}


def causal() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=WORDS, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2
    )
    return LlamaForCausalLM(config)


def classifier() -> nn.Module:
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    drops = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return BertForSequenceClassification(BertConfig(vocab_size=WORDS, num_labels=3, **sizes, **drops))


CLASSES = torch.arange(SEQUENCES) % 3


def next_words(outputs: Any, labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
    return F.cross_entropy(outputs["logits"][:, :-1].transpose(1, 2), labels[:, 1:])


def trainer(
    own: bool,
    make: Callable[[], nn.Module],
    labels: Tensor,
    adam: bool = False,
    own_loss: bool = False,
    loss_func: bool = False,
    smoothing: float = 0.0,
) -> float:
    from accelerate.state import AcceleratorState, GradientState, PartialState
    from transformers import Trainer, TrainingArguments
    from transformers.trainer_pt_utils import LabelSmoother

    AcceleratorState._reset_state()
    GradientState._reset_state()
    if WORLD == 1:
        PartialState._reset_state()

    class InOrder(Trainer):
        def _get_train_sampler(self, *args: Any, **kwargs: Any) -> Any:
            return torch.utils.data.SequentialSampler(self.train_dataset)

    class Halved(InOrder):
        def compute_loss(
            self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
        ) -> Any:
            labels = inputs.pop("labels")
            logits = model(**inputs).logits
            loss = F.cross_entropy(logits[:, :-1].transpose(1, 2), labels[:, 1:]) / 2
            return (loss, {"logits": logits}) if return_outputs else loss

    base = Halved if own_loss else InOrder

    class Exact(T.ExactTrainer, base):  # type: ignore[misc, valid-type]
        pass

    model = make()
    start = copy.deepcopy(model)
    optimizer = optimizer_of(model, adam)
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            output_dir=folder,
            use_cpu=True,
            per_device_train_batch_size=MICRO,
            gradient_accumulation_steps=STEPS,
            num_train_epochs=1,
            max_grad_norm=0,
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            ddp_find_unused_parameters=False,
            label_smoothing_factor=smoothing,
        )
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
        made = (base if own else Exact)(
            model=model,
            args=args,
            train_dataset=Rows(WORDS_IN, labels),
            optimizers=(optimizer, schedule),
            compute_loss_func=next_words if loss_func else None,
        )
        made.train()
        assert made.state.global_step == len(WINDOWS)

    def loss(model: nn.Module, rows: slice) -> Tensor:
        if smoothing:
            outputs = model(input_ids=WORDS_IN[rows])
            return LabelSmoother(epsilon=smoothing)(outputs, labels[rows], shift_labels=True)
        value = model(input_ids=WORDS_IN[rows], labels=labels[rows]).loss
        return value / 2 if own_loss else value

    return error(model, *full_batch(start, loss, adam))


def planted(name: str, fault: Callable[..., Any]) -> float:
    """The causal model, with a name of the adapter's module in exchange for a faulty one."""
    import gradwright.training.adapters.transformers as adapter

    right = getattr(adapter, name)
    setattr(adapter, name, fault)
    try:
        return trainer(False, causal, LABELS)
    finally:
        setattr(adapter, name, right)


def items_of_this_rank(ranks: Any, fetching: Callable[[], Any]) -> Any:
    from gradwright.training.counting import summed
    from gradwright.training.loading import agree

    fetched = agree(ranks, fetching)
    if fetched is not None:
        fetched.totals = {name: value * WORLD for name, value in summed(fetched.counts).items()}
    return fetched


EMPTY_WINDOW = LABELS.clone()
EMPTY_WINDOW[8:16] = -100
