"""ExactTrainer before a stand-in for Trainer's loop; on the real one: test_engines.py."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gradwright.errors import AccumulationError, UsageError
from gradwright.training import ExactTrainer

FEATURES = 3


class Loop:
    """What of Trainer's loop is passed through, with a loss that is a mean of its own."""

    reduction = "mean"
    gpus = 1

    kind = "NO"

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.args = SimpleNamespace(n_gpu=self.gpus, ddp_timeout=60)
        self.accelerator = SimpleNamespace(
            distributed_type=SimpleNamespace(name=self.kind), num_processes=1, scaler=None
        )

    def get_batch_samples(self, iterator: Any, batches: int, device: Any) -> tuple[list[Any], None]:
        return [batch for _, batch in zip(range(batches), iterator, strict=False)], None

    def compute_loss(
        self, model: nn.Module, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        assert num_items_in_batch is None
        logits = model(inputs["x"])
        return F.cross_entropy(logits, inputs["labels"], reduction=self.reduction), logits

    def training_step(self, model: nn.Module, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        loss: Tensor = self.compute_loss(model, inputs, num_items_in_batch=num_items_in_batch)
        loss.backward()
        return loss.detach()

    def train(self, batches: list[Any], steps: int) -> Tensor:
        """The sum of the logged losses of the last window; its gradient is left in place."""
        iterator = iter(batches)
        while (window := self.get_batch_samples(iterator, steps, "cpu"))[0]:
            self.model.zero_grad()
            losses = [self.training_step(self.model, batch, window[1]) for batch in window[0]]
        return torch.stack(losses).sum()


class Exact(ExactTrainer, Loop):  # type: ignore[misc]
    pass


def batches(*labels: list[int]) -> list[dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    return [{"x": torch.randn(len(one), FEATURES, generator=generator), "labels": torch.tensor(one)} for one in labels]


def full(model: nn.Module, window: list[dict[str, Tensor]]) -> tuple[Tensor, Tensor]:
    x, labels = (torch.cat([batch[name] for batch in window]) for name in ("x", "labels"))
    loss = F.cross_entropy(model(x), labels)
    (gradient,) = torch.autograd.grad(loss, [model.weight])
    return loss.detach(), gradient


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_the_gradient_and_the_logged_loss_are_the_full_batchs(steps: int) -> None:
    model = nn.Linear(FEATURES, 4)
    data = batches([0, 1, -100], [2], [-100, -100], [3, 3, -100, 0], [1])
    trainer = Exact(model)
    logged = trainer.train(data, steps)
    loss, gradient = full(model, data[(len(data) - 1) // steps * steps :])
    assert torch.allclose(logged, loss)
    assert torch.allclose(model.weight.grad, gradient, atol=1e-7)


def test_a_window_without_items_leaves_no_gradients() -> None:
    model = nn.Linear(FEATURES, 4)
    logged = Exact(model).train(batches([-100], [-100, -100]), 2)
    assert logged == 0
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize(
    ("labels", "shifts", "items"),
    [
        (torch.tensor([[1, 2, -100], [3, -100, -100]]), False, 3),
        (torch.tensor([[1, 2, -100], [3, -100, -100]]), True, 1),
        (torch.zeros(4, 5), False, 20),
    ],
)
def test_labels_are_counted_as_the_loss_takes_its_mean(labels: Tensor, shifts: bool, items: int) -> None:
    trainer = Exact(nn.Linear(1, 1))
    trainer._loss_shifts_labels = shifts  # type: ignore[attr-defined]
    assert trainer._counted({"labels": labels}) == items
    assert trainer._counted({"labels": labels, "shift_labels": torch.tensor([1, -100])}) == 1


def test_labels_that_can_not_be_counted_are_asked_for() -> None:
    with pytest.raises(UsageError, match="count=lambda batch"):
        Exact(nn.Linear(FEATURES, 4)).train([{"x": torch.ones(1, FEATURES), "start": torch.ones(1)}], 1)


def test_a_sum_is_refused() -> None:
    class Summed(Exact):
        reduction = "sum"

    with pytest.raises(UsageError, match="passed as a mean"):
        Summed(nn.Linear(FEATURES, 4)).train(batches([0, 1, 2]), 1)


def test_a_compute_loss_that_passes_by_is_refused() -> None:
    class Bypassing(Exact):
        def compute_loss(self, model: nn.Module, inputs: Any, return_outputs: bool = False, **_: Any) -> Any:  # type: ignore[override]
            return F.cross_entropy(model(inputs["x"]), inputs["labels"])

    with pytest.raises(UsageError, match="does not pass by ExactTrainer"):
        Bypassing(nn.Linear(FEATURES, 4)).train(batches([0, 1, 2]), 1)


def test_data_parallel_in_one_process_is_refused() -> None:
    class OnTwo(Exact):
        gpus = 2

    with pytest.raises(UsageError, match="2 GPUs in this process"):
        OnTwo(nn.Linear(FEATURES, 4)).train(batches([0]), 1)


def test_a_micro_batch_without_items_of_a_sharded_model_is_refused() -> None:
    class Sharded(Exact):
        kind = "FSDP"

    with pytest.raises(AccumulationError, match="needs its backward"):
        Sharded(nn.Linear(FEATURES, 4)).train(batches([-100], [1]), 2)


def test_it_stands_before_trainer() -> None:
    with pytest.raises(UsageError, match=r"stands before transformers\.Trainer"):
        ExactTrainer(nn.Linear(1, 1))
