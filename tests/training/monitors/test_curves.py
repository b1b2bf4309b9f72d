"""Curves over the optimizer's steps: losses, norms by layer, changes of the weights, what other monitors see."""

import math
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.several.two_heads import COUNT, TwoHeads, drawn, gradients, joined, losses
from torch import Tensor, nn

from gradwright.errors import UsageError
from gradwright.training import Curves, GradientAccumulator, GradientNoiseScale, Gradients, LossConflicts, Monitor

SIZES = (3, 2, 4)


class Writer:
    """A SummaryWriter, as far as curves know it."""

    def __init__(self) -> None:
        self.scalars: dict[tuple[str, int], float] = {}

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        assert isinstance(value, float) and (tag, step) not in self.scalars
        self.scalars[tag, step] = value

    @property
    def tags(self) -> set[str]:
        return {tag for tag, _ in self.scalars}

    def steps(self, tag: str) -> list[int]:
        return [step for one, step in self.scalars if one == tag]


def train(monitors: list[Any], updates: int = 1, **options: Any) -> GradientAccumulator:
    model = TwoHeads()
    acc = GradientAccumulator(
        model,
        torch.optim.SGD(model.parameters(), 0.1),
        accumulation_steps=len(SIZES),
        count=COUNT,
        monitors=monitors,
        **options,
    )
    for _ in range(updates):
        acc.update(acc.window(drawn(SIZES)), lambda batch: losses(model, batch), reduction="sum")
    return acc


def norm(tensors: list[Tensor]) -> float:
    return math.sqrt(sum(float(one.square().sum()) for one in tensors))


def test_a_curve_is_drawn_of_every_loss_layer_and_group() -> None:
    writer = Writer()
    train([Curves(writer)])
    layers = {"trunk.0", "labels", "values"}
    assert writer.tags == {
        *(f"loss/{name}" for name in ("class", "value", "total")),
        *(f"items/{name}" for name in ("class", "value")),
        *(
            f"{what}/{layer}"
            for what in ("gradient_norm", "gradient_norm_used", "update_to_weight")
            for layer in layers
        ),
        *("gradient/norm", "gradient/norm_used", "learning_rate/0"),
    }
    assert {step for _, step in writer.scalars} == {1}


def test_the_figures_are_those_of_the_full_batchs_step() -> None:
    writer, model, batch = Writer(), TwoHeads(), joined(drawn(SIZES))
    clip = 0.3
    train([Curves(writer)], max_norm=clip, weights={"class": 2.0, "value": 0.5})
    by_loss = gradients(model, batch)
    summed = [
        sum(w * one for w, one in zip((2.0, 0.5), parts, strict=True) if one is not None)
        for parts in zip(*by_loss.values(), strict=True)
    ]
    by = clip / norm(summed)
    names = [name for name, _ in model.named_parameters()]
    for layer in ("trunk.0", "labels", "values"):
        own = [one for one, name in zip(summed, names, strict=True) if name.startswith(layer)]
        weights = [one.detach() for name, one in model.named_parameters() if name.startswith(layer)]
        found = {what: writer.scalars[f"{what}/{layer}", 1] for what in ("gradient_norm", "gradient_norm_used")}
        assert found["gradient_norm"] == pytest.approx(norm(own), rel=1e-10)
        assert found["gradient_norm_used"] == pytest.approx(by * norm(own), rel=1e-5)  # torch adds 1e-6 to the norm
        assert writer.scalars[f"update_to_weight/{layer}", 1] == pytest.approx(
            0.1 * by * norm(own) / norm(weights), rel=1e-5
        )
    assert writer.scalars["gradient/norm", 1] == pytest.approx(norm(summed), rel=1e-10)
    assert writer.scalars["gradient/norm_used", 1] == pytest.approx(clip, rel=1e-5)
    for name, loss in losses(model, batch).items():
        assert writer.scalars[f"loss/{name}", 1] == pytest.approx(float(loss.detach() / COUNT[name](batch)), rel=1e-10)
    assert writer.scalars["loss/total", 1] == pytest.approx(
        2 * writer.scalars["loss/class", 1] + 0.5 * writer.scalars["loss/value", 1], rel=1e-12
    )


def test_gradients_are_drawn_unscaled() -> None:
    plain, scaled = Writer(), Writer()
    train([Curves(plain)])
    train([Curves(scaled)], scaler=torch.amp.GradScaler("cpu", init_scale=1024.0))
    assert scaled.scalars == pytest.approx(plain.scalars, rel=1e-10)


def test_every_nth_update_is_drawn_at_its_own_number() -> None:
    writer = Writer()
    train([Curves(writer, every=3)], updates=7)
    assert writer.steps("loss/total") == [1, 4, 7]


def test_the_learning_rate_is_the_one_that_the_update_used() -> None:
    writer, model = Writer(), nn.Linear(1, 1)
    sgd = torch.optim.SGD([{"params": [model.weight]}, {"params": [model.bias], "lr": 1.0}], 0.5)
    acc = GradientAccumulator(
        model, sgd, micro_batch_size=1, normalize="samples", monitors=[Curves(writer)],
        scheduler=torch.optim.lr_scheduler.ExponentialLR(sgd, 0.5),
    )  # fmt: skip
    for _ in range(2):
        acc.update(acc.window([torch.ones(1, 1)]), lambda x: model(x).sum(), reduction="sum")
    assert [writer.scalars[f"learning_rate/{group}", step] for step in (1, 2) for group in (0, 1)] == [
        0.5,
        1,
        0.25,
        0.5,
    ]


def test_windows_without_an_update_are_not_drawn_and_not_counted() -> None:
    writer, model = Writer(), nn.Linear(1, 1)
    acc = GradientAccumulator(
        model, torch.optim.SGD(model.parameters(), 0.1), micro_batch_size=1, normalize="samples",
        monitors=[Curves(writer)], on_nonfinite="skip",
    )  # fmt: skip
    for value in (1.0, math.nan, 2.0):
        acc.update(acc.window([torch.full((1, 1), value)]), lambda x: model(x).sum(), reduction="sum")
    assert writer.steps("loss/loss") == [1, 2] and not any(math.isnan(value) for value in writer.scalars.values())


def test_an_optimizer_that_evaluates_several_times_is_drawn_from_before_its_step() -> None:
    writer, model = Writer(), nn.Linear(2, 1, bias=False).double()
    before = model.weight.detach().clone()
    acc = GradientAccumulator(
        model, torch.optim.LBFGS(model.parameters(), max_iter=5), micro_batch_size=2, normalize="samples",
        monitors=[Curves(writer)],
    )  # fmt: skip
    x = torch.eye(2, dtype=torch.float64)
    acc.update(acc.window([x, 2 * x]), lambda x: (model(x) - 1).square().sum(), reduction="sum")
    change = float((model.weight.detach() - before).norm() / before.norm())
    assert writer.scalars["update_to_weight/model", 1] == pytest.approx(change, rel=1e-10)


class Counts(Monitor):
    """Has something to draw from the third update on."""

    made = 0

    def summed(self, gradients: Gradients) -> None:
        self.made += 1

    def curves(self) -> dict[str, float]:
        return {"made": float(self.made)} if self.made >= 3 else {}


def test_other_monitors_curves_are_drawn_wherever_they_stand() -> None:
    writer, conflicts, counts = Writer(), LossConflicts(), Counts()
    train([counts, Curves(writer, of=[conflicts, counts]), conflicts], updates=4, separate=True)
    assert writer.steps("made") == [3, 4] and writer.scalars["made", 4] == 4.0
    assert conflicts.latest is not None and len(conflicts.history) == 4
    assert writer.scalars["cosine/class-value", 4] == conflicts.latest.cosines["class", "value"]
    assert writer.scalars["gradient_norm_of_loss/value", 4] == conflicts.latest.norms["value"]


def test_layers_are_grouped_as_is_said() -> None:
    writer = Writer()
    train([Curves(writer, layer=lambda name: "all")])
    assert {tag for tag in writer.tags if tag.startswith("gradient_norm/")} == {"gradient_norm/all"}


def test_the_axis_goes_on_from_a_checkpoint() -> None:
    first, second = Writer(), Writer()
    acc = train([Curves(first)], updates=3)
    model = TwoHeads()
    again = GradientAccumulator(
        model, torch.optim.SGD(model.parameters(), 0.1), accumulation_steps=3, count=COUNT, monitors=[Curves(second)]
    )
    again.load_state_dict(acc.state_dict())
    again.update(again.window(drawn(SIZES)), lambda batch: losses(model, batch), reduction="sum")
    assert second.steps("loss/total") == [4]


def test_watching_changes_no_result() -> None:
    plain = train([], updates=3, separate=True)
    watched = train([Curves(Writer(), every=2), LossConflicts(), GradientNoiseScale("class")], updates=3, separate=True)
    for one, other in zip(plain.parameters, watched.parameters, strict=True):
        assert torch.equal(one, other)


def test_nothing_is_kept_between_updates() -> None:
    curves = Curves(Writer())
    train([curves], updates=2)
    assert not curves._before and curves._gradients is None and not curves._drawn


@pytest.mark.parametrize("target", [3, None, Writer, print])
def test_what_is_no_target_is_told_before_the_run(target: Any) -> None:
    with pytest.raises(UsageError, match="can't write to"):
        Curves(target)


def test_a_folder_needs_the_package_tensorboard(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="pip install tensorboard"):
        Curves(tmp_path)


def test_losses_that_are_not_kept_apart_have_no_conflicts_to_look_at() -> None:
    with pytest.raises(UsageError, match="separate=True"):
        train([LossConflicts()])


@pytest.mark.peers
def test_tensorboard_reads_the_event_files_back(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    writer, conflicts = Writer(), LossConflicts()
    both = [Curves(writer, of=[conflicts]), Curves(tmp_path, of=[conflicts])]
    first = train([conflicts, *both], updates=3, separate=True)
    both[1].close()
    events = EventAccumulator(str(tmp_path)).Reload()
    read = {(tag, event.step): event.value for tag in events.Tags()["scalars"] for event in events.Scalars(tag)}
    assert read == {key: pytest.approx(value, rel=1e-6) for key, value in writer.scalars.items()}

    lost = Curves(tmp_path)  # begins at the checkpoint behind update 3 anew, as a run does that was killed later
    lost.load_state_dict(both[1].state_dict() | {"updates": 1})
    train([lost], updates=1)
    lost.close()
    steps = [event.step for event in EventAccumulator(str(tmp_path)).Reload().Scalars("loss/total")]
    assert steps == [1, 2] and first.updates == 3
