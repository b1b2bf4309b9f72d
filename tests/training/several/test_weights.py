"""Losses weigh what is said, and their curves are told without it."""

from typing import Any

import pytest
import torch
from tests.training.several.two_heads import COUNT, TwoHeads, drawn, flat, gradients, joined, losses, relative

from gradwright.errors import UsageError
from gradwright.training import GradientAccumulator, Update
from gradwright.training.several import Weights

SIZES = (3, 1, 5)


def run(options: dict[str, Any], windows: int = 1) -> tuple[TwoHeads, list[Update]]:
    model = TwoHeads()
    acc = GradientAccumulator(
        model, torch.optim.SGD(model.parameters(), 0.0), accumulation_steps=len(SIZES), count=COUNT, **options
    )
    batches = drawn(SIZES) * windows
    return model, [
        acc.update(window, lambda batch: losses(model, batch), reduction="sum") for window in acc.windows(batches)
    ]


def weighted(model: TwoHeads, weights: dict[str, float]) -> torch.Tensor:
    """The full batch's gradient, by hand."""
    by_loss = gradients(model, joined(drawn(SIZES)))
    return flat(
        sum(weights[name] * one for name, one in zip(by_loss, parts, strict=True) if one is not None)
        for parts in zip(*by_loss.values(), strict=True)
    )


@pytest.mark.parametrize("separate", [False, True])
def test_the_gradient_is_the_weighted_sum_of_the_full_batchs(separate: bool) -> None:
    weights = {"class": 0.25, "value": 3.0}
    model, (update,) = run({"weights": weights, "separate": separate})
    assert relative(flat(one.grad for one in model.parameters()), weighted(model, weights)) < 1e-12
    assert update.weights == weights


def test_a_weight_may_be_a_function_of_the_updates_made() -> None:
    model, updates = run({"weights": {"class": 1.0, "value": lambda update: update / 2}}, windows=3)
    assert [update.weights["value"] for update in updates] == [0.0, 0.5, 1.0]
    assert relative(flat(one.grad for one in model.parameters()), weighted(model, {"class": 1.0, "value": 1.0})) < 1e-12


def test_losses_are_told_without_their_weights_and_their_sum_with_them() -> None:
    model, (update,) = run({"weights": {"class": 10.0, "value": 2.0}})
    batch = joined(drawn(SIZES))
    expected = {name: float(loss.detach() / COUNT[name](batch)) for name, loss in losses(model, batch).items()}
    assert {name: float(loss) for name, loss in update.losses.items()} == pytest.approx(expected, rel=1e-12)
    assert update.loss == pytest.approx(10 * expected["class"] + 2 * expected["value"], rel=1e-12)


def test_a_loss_without_a_weight_is_refused_because_a_mistyped_name_would_weigh_one() -> None:
    with pytest.raises(UsageError, match="the loss 'value' has no weight: weights= names 'class', 'valeu'"):
        run({"weights": {"class": 1.0, "valeu": 0.1}})


@pytest.mark.parametrize(
    ("weight", "why"),
    [
        ("1", "is '1': it is a number"),
        (float("nan"), "is nan"),
        (True, "is True"),
        (torch.nn.Parameter(torch.ones(())), "belongs into the loss itself"),
    ],
)
def test_what_is_no_weight_is_told_before_the_run(weight: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        Weights({"class": weight})


def test_what_a_function_gives_is_looked_at_too() -> None:
    with pytest.raises(UsageError, match="the weight of 'class' is None"):
        Weights({"class": lambda update: None}).at(0, ["class"])  # type: ignore[dict-item,return-value]


def test_losses_with_counts_that_only_backward_says_are_kept_apart_in_separate_calls_too() -> None:
    model = TwoHeads()
    acc = GradientAccumulator(model, torch.optim.SGD(model.parameters(), 0.0), accumulation_steps=2)
    for batch in acc.window(drawn((2, 2))):
        for name, loss in losses(model, batch).items():
            acc.backward({name: loss}, reduction="sum", items=2, retain_graph=True)
    assert acc.step().items == {"class": 4.0, "value": 4.0} and set(acc._store.by_loss) == {"class", "value"}  # type: ignore[attr-defined]
