"""An aggregator sees the accumulated gradients of the losses, over shared parameters; heads keep their own."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.training.several.two_heads import COUNT, TwoHeads, drawn, flat, gradients, joined, losses, relative
from torch import Tensor

from gradwright.errors import NonFiniteGradient, UsageError
from gradwright.training import GradientAccumulator
from gradwright.training.gradients import Buffers
from gradwright.training.running import Running
from gradwright.training.several import Reach, Weights

SIZES = (3, 1, 5)


def accumulated(aggregator: Callable[[Tensor], Tensor] | None, **options: Any) -> tuple[TwoHeads, list[Tensor]]:
    model = TwoHeads()
    acc = GradientAccumulator(
        model,
        torch.optim.SGD(model.parameters(), 0.0),
        accumulation_steps=len(SIZES),
        count=COUNT,
        aggregator=aggregator,
        **options,
    )
    window = acc.window(drawn(SIZES))
    acc.update(window, lambda batch: losses(model, batch), reduction="sum")
    return model, [one.grad for one in model.parameters()]


def by_hand(
    model: TwoHeads, aggregator: Callable[[Tensor], Tensor], weights: dict[str, float] | None = None
) -> list[Tensor]:
    """Of the full batch: the trunk's by the aggregator, the heads' by their loss."""
    by_loss = {
        name: [None if one is None else (weights or {}).get(name, 1.0) * one for one in parts]
        for name, parts in gradients(model, joined(drawn(SIZES))).items()
    }
    trunk = len(list(model.trunk.parameters()))
    matrix = torch.stack([flat(parts[:trunk]) for parts in by_loss.values()])
    combined = aggregator(matrix).split([one.numel() for one in model.trunk.parameters()])
    shared = [part.view_as(one) for part, one in zip(combined, model.trunk.parameters(), strict=True)]
    heads = zip(by_loss["class"][trunk:], by_loss["value"][trunk:], strict=True)
    return shared + [one if one is not None else other for one, other in heads]


def smallest(matrix: Tensor) -> Tensor:
    """Not linear in the rows, so that an aggregate of micro-batches would differ."""
    return torch.where(matrix[0].abs() < matrix[1].abs(), matrix[0], matrix[1])


@pytest.mark.parametrize("aggregator", [lambda matrix: matrix.sum(0), lambda matrix: matrix.mean(0), smallest])
def test_it_is_applied_to_the_full_batchs_gradients(aggregator: Callable[[Tensor], Tensor]) -> None:
    model, found = accumulated(aggregator)
    assert relative(flat(found), flat(by_hand(model, aggregator))) < 1e-12


def _without_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Weights, "at", lambda self, update, names: dict.fromkeys(names, 1.0))


def _heads_in_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = Reach(tuple(range(6)), {})
    monkeypatch.setattr("gradwright.training.several.aggregation.Reach.of", lambda by_loss: everything)


def _last_micro_batch_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    take = Buffers._take

    def taken(self: Buffers, sums: list[Tensor | None]) -> None:
        sums[:] = [None] * len(sums)
        take(self, sums)

    monkeypatch.setattr(Buffers, "_take", taken)


def _undivided(monkeypatch: pytest.MonkeyPatch) -> None:
    total = Running.total
    monkeypatch.setattr(Running, "total", lambda self, name, items: total(self, name, items) and 1.0)


@pytest.mark.parametrize("fault", [_without_weights, _heads_in_the_matrix, _last_micro_batch_alone, _undivided])
def test_wrong_ways_are_caught(fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """By an aggregator that takes losses by their size."""

    def by_size(matrix: Tensor) -> Tensor:
        return (matrix * matrix.norm(dim=1, keepdim=True)).sum(0)

    weights = {"class": 3.0, "value": 1.0}
    expected = flat(by_hand(TwoHeads(), by_size, weights))
    assert relative(flat(accumulated(by_size, weights=weights)[1]), expected) < 1e-12
    fault(monkeypatch)
    assert relative(flat(accumulated(by_size, weights=weights)[1]), expected) > 1e-2


def test_the_sum_is_what_no_aggregator_gives() -> None:
    assert relative(flat(accumulated(lambda matrix: matrix.sum(0))[1]), flat(accumulated(None)[1])) < 1e-14


def test_a_scaled_matrix_is_never_shown_to_it() -> None:
    """It may know sizes: here it clips each loss's gradient."""

    def clipped(matrix: Tensor) -> Tensor:
        return (matrix / matrix.norm(dim=1, keepdim=True).clamp(min=0.5)).sum(0)

    model, found = accumulated(clipped, scaler=torch.amp.GradScaler("cpu", init_scale=1024.0))
    assert relative(flat(found), flat(by_hand(model, clipped))) < 1e-12


@pytest.mark.parametrize("weights", [None, {"value": 1.0, "class": 1.0}])
def test_rows_stand_in_the_order_of_the_weights_or_of_the_names(weights: dict[str, float] | None) -> None:
    model, found = accumulated(lambda matrix: matrix[0], weights=weights)
    first = "class" if weights is None else "value"
    expected = gradients(model, joined(drawn(SIZES)))[first][0]
    assert expected is not None and relative(found[0], expected) < 1e-12


def test_rows_are_weighted() -> None:
    _, found = accumulated(smallest, weights={"class": 2.0, "value": 0.0})
    assert not found[0].any() and found[-1].any() == 0


def test_a_gradient_that_is_not_finite_is_found_and_the_aggregator_not_asked() -> None:
    def never(matrix: Tensor) -> Tensor:
        raise AssertionError

    model = TwoHeads()
    acc = GradientAccumulator(
        model, torch.optim.SGD(model.parameters()), accumulation_steps=1, normalize="samples", aggregator=never
    )
    window = acc.window(drawn((2,)))
    with pytest.raises(NonFiniteGradient, match="micro-batch 0"):
        acc.update(
            window,
            lambda batch: {name: loss * math.nan for name, loss in losses(model, batch).items()},
            reduction="sum",
        )


def test_what_gives_no_gradient_is_told() -> None:
    with pytest.raises(UsageError, match=r"the aggregator made \[2\] of a matrix \[2, 40\]: it gives one gradient"):
        accumulated(lambda matrix: matrix.sum(1))
    with pytest.raises(UsageError, match="is a function of a matrix"):
        accumulated(3)  # type: ignore[arg-type]


@pytest.mark.peers
@pytest.mark.parametrize("name", ["Sum", "Mean", "MGDA", "IMTLG", "AlignedMTL", "PCGrad", "ConFIG", "GradDrop"])
def test_aggregators_of_torchjd_plug_in(name: str) -> None:
    torchjd = pytest.importorskip("torchjd.aggregation")
    state = {}  # of the random generator, for those that draw

    def seeded(matrix: Tensor) -> Tensor:
        torch.set_rng_state(state["then"])
        return getattr(torchjd, name)()(matrix)

    def remembering(matrix: Tensor) -> Tensor:
        state["then"] = torch.get_rng_state()
        return getattr(torchjd, name)()(matrix)

    model, found = accumulated(remembering)
    assert relative(flat(found), flat(by_hand(model, seeded))) < 1e-9


@pytest.mark.peers
def test_heads_and_trunk_are_as_torchjds_own_mtl_backward_makes_them() -> None:
    aggregation = pytest.importorskip("torchjd.aggregation")
    autojac = pytest.importorskip("torchjd.autojac")
    _, found = accumulated(aggregation.MGDA())
    model, batch = TwoHeads(), joined(drawn(SIZES))
    hidden = model.trunk(batch[0])
    labels, values = model.labels(hidden), model.values(hidden).squeeze(-1)
    classes = torch.nn.functional.cross_entropy(labels, batch[1], reduction="mean")
    autojac.mtl_backward(
        [classes, torch.nn.functional.mse_loss(values, batch[2])],
        features=hidden,
        shared_params=list(model.trunk.parameters()),
        tasks_params=[list(model.labels.parameters()), list(model.values.parameters())],
    )
    autojac.jac_to_grad(list(model.trunk.parameters()), aggregation.MGDA())
    assert relative(flat(found), flat(one.grad for one in model.parameters())) < 1e-9
