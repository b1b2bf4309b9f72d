"""check_equivalence proves accumulation on a user's own model, and says why it does not hold."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gradwright import losses
from gradwright.errors import GradientError, UsageError
from gradwright.training import Equivalence, check_equivalence
from gradwright.training.coupled.outputs import Together
from gradwright.training.shares import Shares

IGNORED = -100


def net(*more: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 12), *more, nn.Tanh(), nn.Linear(12, 4))


def data(samples: int = 12) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(samples, 5, generator=generator), torch.randint(0, 4, (samples,), generator=generator)


def with_ignored() -> tuple[Tensor, Tensor]:
    x, y = data()
    y[[0, 1, 2, 9]] = IGNORED
    return x, y


def ce(model: nn.Module, pair: Any) -> Tensor:
    return F.cross_entropy(model(pair[0]), pair[1])


def ce_sum(model: nn.Module, pair: Any) -> Tensor:
    return F.cross_entropy(model(pair[0]), pair[1], reduction="sum")


def dice(model: nn.Module, pair: Any) -> Tensor:
    return losses.dice_loss(model(pair[0]), pair[1], "multiclass")


def kept(pair: Any) -> Tensor:
    return (pair[1] != IGNORED).sum()


def kinds(found: Equivalence) -> list[str]:
    return [cause.kind for cause in found.causes]


# -- where it holds


@pytest.mark.parametrize("size", [1, 4, 5])
def test_a_mean_over_samples_holds(size: int) -> None:
    found = check_equivalence(net(), ce, data(), micro_batch_size=size)
    assert found and found.error < 1e-6 and found.exact is not None and found.exact < 1e-13
    assert found.causes == () and found.micro_batches == -(-12 // size)
    found.raise_if_wrong()
    assert "equals the full batch's" in str(found)


def test_counted_items_hold() -> None:
    assert check_equivalence(net(), ce_sum, with_ignored(), micro_batch_size=4, reduction="sum", count=kept)
    assert check_equivalence(net(), ce, with_ignored(), micro_batch_size=4, count=kept)


def test_several_losses_with_their_own_denominators_hold() -> None:
    def both(model: nn.Module, pair: Any) -> dict[str, Tensor]:
        z = model(pair[0])
        return {"ce": F.cross_entropy(z, pair[1], reduction="sum"), "size": z.square().mean(1).sum()}

    count: Any = {"ce": kept, "size": lambda pair: len(pair[0])}
    assert check_equivalence(net(), both, with_ignored(), micro_batch_size=5, reduction="sum", count=count)


def test_a_model_in_float64_needs_no_copy() -> None:
    x, y = data()
    found = check_equivalence(net().double(), ce, (x.double(), y), micro_batch_size=4)
    assert found and found.dtype is torch.float64 and found.exact == found.error


def test_rounding_of_a_low_precision_is_told_from_what_is_wrong() -> None:
    x, y = data(64)
    found = check_equivalence(net().bfloat16(), ce, (x.bfloat16() * 30, y), micro_batch_size=1)
    assert found and found.exact is not None and found.exact < 1e-10 < found.error


def test_a_coupled_update_is_proved_as_well() -> None:
    def forward(model: nn.Module, pair: Any) -> tuple[Tensor, Tensor]:
        return model(pair[0]), pair[1]

    loss = losses.DiceLoss("multiclass")
    assert check_equivalence(net(), loss, data(), micro_batch_size=5, forward=forward)

    def sums(model: nn.Module, pair: Any) -> tuple[Tensor, Tensor]:
        p, t = model(pair[0]).softmax(1), F.one_hot(pair[1], 4)
        return (p * t).sum(0), (p + t).sum(0)

    def of_sums(hit: Tensor, all_: Tensor) -> Tensor:
        return 1 - (2 * hit / all_).mean()

    assert check_equivalence(net(), of_sums, data(), micro_batch_size=5, forward=sums, combine="sum")


# -- where it does not


def test_batch_normalisation_is_named() -> None:
    found = check_equivalence(net(nn.BatchNorm1d(12)), ce, data(), micro_batch_size=4)
    assert not found and kinds(found) == ["batch normalisation"]
    assert "(1)" in found.causes[0].why and found.held_still is not None and found.held_still < 1e-12
    assert "does NOT equal" in str(found) and found.exact is not None and found.exact > 1e-3
    with pytest.raises(GradientError, match="batch normalisation"):
        found.raise_if_wrong()
    with pytest.raises(AssertionError):
        found.raise_if_wrong()


def test_dropout_is_named() -> None:
    found = check_equivalence(net(nn.Dropout(0.3), nn.Dropout(0.2)), ce, data(), micro_batch_size=4)
    assert not found and kinds(found) == ["dropout"] and found.held_still is not None and found.held_still < 1e-12


def test_masks_that_are_drawn_alike_are_no_difference() -> None:
    assert check_equivalence(net(nn.Dropout(0.3)), ce, data(), micro_batch_size=4)  # one layer: one row of draws


def test_both_are_named() -> None:
    layers = nn.BatchNorm1d(12), nn.Dropout(0.3), nn.Dropout(0.2)
    found = check_equivalence(net(*layers), ce, data(), micro_batch_size=4)
    assert kinds(found) == ["batch normalisation", "dropout"]


def test_in_evaluation_both_hold() -> None:
    assert check_equivalence(net(nn.BatchNorm1d(12), nn.Dropout(0.3)).eval(), ce, data(), micro_batch_size=4)


def test_draws_that_are_no_layers_are_named() -> None:
    def noisy(model: nn.Module, pair: Any) -> Tensor:
        return F.cross_entropy(F.dropout(model(F.dropout(pair[0], 0.2)), 0.3), pair[1])

    assert kinds(check_equivalence(net(), noisy, data(), micro_batch_size=4)) == ["random numbers"]


def test_a_mean_of_means_is_named_with_its_weights() -> None:
    for options in ({"normalize": "steps"}, {"normalize": "samples"}):
        found = check_equivalence(net(), ce, with_ignored(), micro_batch_size=4, **options)  # type: ignore[arg-type]
        assert not found and kinds(found) == ["denominators"], str(found)
        assert "0.125, 0.5, 0.375" in found.causes[0].why  # 1, 4 and 3 of 8 labels count


def test_a_coupled_loss_is_named_with_what_it_does() -> None:
    found = check_equivalence(net(), dice, data(), micro_batch_size=4)
    assert kinds(found) == ["coupled loss"] and "over the batch" in found.causes[0].why
    beside = check_equivalence(net(nn.BatchNorm1d(12)), dice, data(), micro_batch_size=4)
    assert kinds(beside) == ["batch normalisation", "coupled loss"]


def test_a_layer_in_which_samples_meet_is_not_taken_for_denominators() -> None:
    class Centred(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x - x.mean(0)

    assert kinds(check_equivalence(net(Centred()), ce, data(), micro_batch_size=4)) == ["coupled loss"]


def test_a_coupled_update_over_batch_normalisation_is_named() -> None:
    def forward(model: nn.Module, pair: Any) -> tuple[Tensor, Tensor]:
        return model(pair[0]), pair[1]

    loss = losses.DiceLoss("multiclass")
    found = check_equivalence(net(nn.BatchNorm1d(12)), loss, data(), micro_batch_size=4, forward=forward)
    assert kinds(found) == ["batch normalisation"]


def test_a_forward_that_does_not_repeat_is_named() -> None:
    calls: list[int] = []

    def counting(model: nn.Module, pair: Any) -> Tensor:
        calls.append(1)
        return ce(model, pair) * len(calls)

    found = check_equivalence(net(), counting, data(), micro_batch_size=4)
    assert not found and kinds(found) == ["not repeatable"]


def test_what_is_not_finite_is_named() -> None:
    x, y = data()
    x[3] = torch.nan
    found = check_equivalence(net(), ce, (x, y), micro_batch_size=4)
    assert not found and kinds(found) == ["not finite"]


def test_the_worst_parameter_is_named() -> None:
    class OneWrong(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.right, self.wrong = nn.Linear(5, 4), nn.Parameter(torch.full((4,), 0.3))

        def forward(self, x: Tensor) -> Tensor:
            z = self.right(x)
            return z + self.wrong * z.detach().std(0)

    found = check_equivalence(OneWrong(), ce, data(), micro_batch_size=4)
    assert not found and found.worst == "wrong" and set(found.by_parameter) == {"right.weight", "right.bias", "wrong"}


def test_where_float64_can_not_be_had_it_says_so() -> None:
    weights = torch.tensor([1.0, 2.0, 0.5, 1.0])

    def weighted(model: nn.Module, pair: Any) -> Tensor:
        return F.cross_entropy(model(pair[0]), pair[1], weight=weights, reduction="sum")

    found = check_equivalence(
        net(), weighted, data(), micro_batch_size=4, reduction="sum", count=lambda pair: weights[pair[1]].sum()
    )
    assert found.ok and found.exact is None and "RuntimeError" in found.why_not_exact
    assert "float64 was not examined" in str(found)


# -- what it asks for, and what it leaves


def test_wrong_usage_is_refused() -> None:
    with pytest.raises(UsageError, match="one micro-batch"):
        check_equivalence(net(), ce, data(4), micro_batch_size=8)
    with pytest.raises(UsageError, match="its graph says that it is a mean"):
        check_equivalence(net(), ce, data(), micro_batch_size=4, reduction="sum")
    with pytest.raises(UsageError, match="no parameters"):
        check_equivalence(nn.Tanh(), ce, data(), micro_batch_size=4)


@pytest.mark.parametrize("make", [lambda: net(nn.BatchNorm1d(12), nn.Dropout(0.3)), lambda: net()])
def test_the_model_is_left_as_it_was(make: Callable[[], nn.Module]) -> None:
    model = make()
    list(model.children())[-1].eval()
    ce(model, data()).backward()
    gradients = [one.grad for one in model.parameters()]
    before = copy.deepcopy(model.state_dict()), [one.clone() for one in gradients if one is not None]
    modes = [module.training for module in model.modules()]
    torch.manual_seed(5)
    drawn = torch.rand(1)
    torch.manual_seed(5)
    check_equivalence(model, ce, data(), micro_batch_size=4)
    assert torch.equal(torch.rand(1), drawn)
    assert all(torch.equal(value, before[0][name]) for name, value in model.state_dict().items())
    assert [one.grad for one in model.parameters()] == gradients or all(
        one.grad is kept for one, kept in zip(model.parameters(), gradients, strict=True)
    )
    assert all(torch.equal(one, kept) for one, kept in zip(gradients, before[1], strict=True) if one is not None)
    assert [module.training for module in model.modules()] == modes


# -- planted faults: an accumulator that is wrong does not pass


def test_a_wrong_division_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Shares.of

    def share(self: Shares, running: Any, *share_of: Any) -> Tensor:
        return own(self, running, *share_of) * (1.0 if running.window.steps == 1 else 0.99)

    monkeypatch.setattr(Shares, "of", share)
    found = check_equivalence(net(), ce, data(), micro_batch_size=4)
    assert not found and found.exact == pytest.approx(0.01)


def test_a_wrong_cotangent_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Together.part
    monkeypatch.setattr(Together, "part", lambda self, at, c, step: own(self, at, c, step).flip(0))

    def forward(model: nn.Module, pair: Any) -> tuple[Tensor, Tensor]:
        return model(pair[0]), pair[1]

    assert not check_equivalence(net(), losses.DiceLoss("multiclass"), data(), micro_batch_size=4, forward=forward)


@pytest.mark.parametrize(
    "criterion", [nn.CrossEntropyLoss(), nn.CrossEntropyLoss(reduction="sum"), F.cross_entropy, losses.cross_entropy]
)
def test_three_arguments_are_enough_and_a_criterion_is_given_outputs_and_targets(criterion: Any) -> None:
    found = check_equivalence(net(), criterion, data())
    assert found.ok and found.micro_batches == 2


def test_the_pieces_differ_in_size_so_that_a_mean_of_means_shows() -> None:
    assert [cause.kind for cause in check_equivalence(net(), ce, data(), normalize="steps").causes] == ["denominators"]
    assert check_equivalence(net(), nn.CrossEntropyLoss(), with_ignored()).causes[0].kind == "denominators"


def test_a_criterion_wants_a_pair() -> None:
    with pytest.raises(UsageError, match=r"the batch is a dict, no pair.*loss\(model, batch\)"):
        check_equivalence(net(), nn.CrossEntropyLoss(), {"x": data()[0], "y": data()[1]})
