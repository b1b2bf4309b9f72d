"""A mean passed as a sum, or a sum passed as a mean, is caught; however a loss is written, nothing right is refused."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gradwright import losses
from gradwright.errors import UsageError
from gradwright.training import GradientAccumulator, reduction
from gradwright.training.reduction import check_reduction

N, C = 6, 4
WEIGHT = nn.Parameter(torch.ones(()))
LAYER = nn.Linear(3, C)
X, Y = torch.randn(N, 3, generator=torch.Generator().manual_seed(0)), torch.arange(N) % C
FULL = F.one_hot(Y, C).float()
COUNTS = torch.tensor([1.0, 0.0, 1.0, 1.0, 1.0, 1.0])


def z() -> Tensor:
    return LAYER(X)


def each() -> Tensor:
    return F.cross_entropy(z(), Y, reduction="none")


Written = dict[str, Callable[[], Tensor]]

# Of N items. Those that are caught where they are passed as the other, and those of which nothing can be said.
MEANS: Written = {
    "cross entropy": lambda: F.cross_entropy(z(), Y),
    "mse": lambda: F.mse_loss(z(), FULL),
    "none, mean": lambda: each().mean(),
    "none, sum, over the count": lambda: each().sum() / N,
    "sum, over the count as a tensor": lambda: F.cross_entropy(z(), Y, reduction="sum") / torch.tensor(N),
    "sum, times one over the count": lambda: F.cross_entropy(z(), Y, reduction="sum") * (1 / N),
    "by hand": lambda: ((z() - FULL) ** 2).mean(),
    "negative logarithms": lambda: -z().log_softmax(1)[torch.arange(N), Y].mean(),
    "of sums of samples": lambda: ((z() - FULL) ** 2).sum(1).mean(),
    "weighted": lambda: 0.5 * F.cross_entropy(z(), Y),
    "halved": lambda: F.cross_entropy(z(), Y) / 2,
    "two of them": lambda: F.cross_entropy(z(), Y) + 0.1 * z().square().mean(),
    "gw cross entropy": lambda: losses.cross_entropy(z(), Y),
    "half precision": lambda: F.cross_entropy(z().bfloat16(), Y).float(),
}
MEANS_UNSAID: Written = {
    "batchmean": lambda: F.kl_div(z().log_softmax(1), FULL, reduction="batchmean"),
    "masked": lambda: (each() * COUNTS).sum() / COUNTS.sum(),
    "weights of sum 1": lambda: (each() * torch.full((N,), 1 / N)).sum(),
    "sum over entries divided": lambda: (each() / N).sum(),
    "of a loop": lambda: torch.stack([F.mse_loss(one, other) for one, other in zip(z(), FULL, strict=True)]).mean(),
    "of a loop, sum": lambda: torch.stack([F.mse_loss(a, b) / N for a, b in zip(z(), FULL, strict=True)]).sum(),
    "learned weight": lambda: F.cross_entropy(z(), Y) * torch.exp(-WEIGHT) + WEIGHT,
    "by einsum": lambda: torch.einsum("n,n->", each(), torch.full((N,), 1 / N)),
    "gw huber": lambda: losses.huber_loss(z(), FULL),
    "over features, then samples": lambda: ((z() - FULL) ** 2).mean(1).mean(),
    "for an accumulation of 4": lambda: F.cross_entropy(z(), Y, reduction="sum") / N / 4,
    "and a norm of weights": lambda: F.cross_entropy(z(), Y) + 0.01 * LAYER.weight.pow(2).sum(),
}
SUMS: Written = {
    "cross entropy": lambda: F.cross_entropy(z(), Y, reduction="sum"),
    "none, sum": lambda: each().sum(),
    "by hand": lambda: ((z() - FULL) ** 2).sum(),
    "twice": lambda: ((z() - FULL) ** 2).sum(1).sum(),
    "negative logarithms": lambda: -z().log_softmax(1).gather(1, Y[:, None]).sum(),
    "mean times the count": lambda: F.cross_entropy(z(), Y) * N,
    "doubled": lambda: 2 * F.cross_entropy(z(), Y, reduction="sum"),
    "two of them": lambda: F.cross_entropy(z(), Y, reduction="sum") + F.mse_loss(z(), FULL, reduction="sum"),
    "gw cross entropy": lambda: losses.cross_entropy(z(), Y, reduction="sum"),
}
SUMS_UNSAID: Written = {
    "none, chosen, sum": lambda: each()[COUNTS > 0].sum(),
    "of means of samples": lambda: ((z() - FULL) ** 2).mean(1).sum(),
    "weighted by 0.1": lambda: 0.1 * F.cross_entropy(z(), Y, reduction="sum"),
    "masked": lambda: (each() * COUNTS).sum(),
    "mean of two heads": lambda: torch.stack([each().sum(), ((z() - FULL) ** 2).sum()]).mean(),
    "mean over classes of sums": lambda: ((z() - FULL) ** 2).sum(0).mean(),
    "mean times another count": lambda: F.cross_entropy(z(), Y) * (N + 2),
    "in a loop": lambda: sum(F.mse_loss(a, b) for a, b in zip(z(), FULL, strict=True)),  # type: ignore[misc,return-value,dict-item]
    "of a loop": lambda: torch.stack([F.mse_loss(a, b) for a, b in zip(z(), FULL, strict=True)]).sum(),
    "learned weight": lambda: F.cross_entropy(z(), Y, reduction="sum") * torch.exp(-WEIGHT),
    "and a mean of weights": lambda: each().sum() + LAYER.weight.abs().mean(),
    "gw huber": lambda: losses.huber_loss(z(), FULL, reduction="sum"),
}


@pytest.mark.parametrize("name", [*MEANS, *MEANS_UNSAID])
def test_a_mean_that_is_said_to_be_one_is_let_through(name: str) -> None:
    check_reduction((MEANS | MEANS_UNSAID)[name](), "mean", N)


@pytest.mark.parametrize("name", [*SUMS, *SUMS_UNSAID])
def test_a_sum_that_is_said_to_be_one_is_let_through(name: str) -> None:
    check_reduction((SUMS | SUMS_UNSAID)[name](), "sum", N)


@pytest.mark.parametrize("name", MEANS)
def test_a_mean_that_is_passed_as_a_sum_is_caught(name: str) -> None:
    with pytest.raises(UsageError, match="passed as a sum, and its graph says that it is a mean"):
        check_reduction(MEANS[name](), "sum", N)


@pytest.mark.parametrize("name", SUMS)
def test_a_sum_that_is_passed_as_a_mean_is_caught(name: str) -> None:
    with pytest.raises(UsageError, match="passed as a mean, and its graph says that it is a sum"):
        check_reduction(SUMS[name](), "mean", N)


def test_a_sum_over_the_items_that_were_chosen_is_caught() -> None:
    with pytest.raises(UsageError, match="a sum"):
        check_reduction(SUMS_UNSAID["none, chosen, sum"](), "mean", 5)


@pytest.mark.parametrize("name", [*MEANS, *SUMS])
def test_of_one_item_they_are_the_same(name: str) -> None:
    for claimed in ("sum", "mean"):
        check_reduction((MEANS | SUMS)[name](), claimed, 1)  # type: ignore[arg-type]


_NEEDS_THE_COUNT = {
    "none, sum, over the count", "sum, over the count as a tensor", "sum, times one over the count",
    "mean times the count", "gw cross entropy",
}  # fmt: skip


@pytest.mark.parametrize("name", [*MEANS, *SUMS])
def test_without_a_count_right_losses_are_let_through_and_plain_ones_caught(name: str) -> None:
    if name in MEANS:
        check_reduction(MEANS[name](), "mean", None)
    if name in SUMS:
        check_reduction(SUMS[name](), "sum", None)
    if name not in _NEEDS_THE_COUNT:
        with pytest.raises(UsageError):
            check_reduction((SUMS | MEANS)[name](), "sum" if name in MEANS else "mean", None)


def test_what_is_no_reduction_is_refused() -> None:
    with pytest.raises(UsageError, match="say 'sum' or 'mean'"):
        check_reduction(z().sum(), "average", N)  # type: ignore[arg-type]


@pytest.mark.parametrize("normalize", ["samples", "items"])
def test_the_accumulator_asks_in_the_first_micro_batch(normalize: str) -> None:
    acc = GradientAccumulator(
        LAYER,
        torch.optim.SGD(LAYER.parameters(), 0.0),
        accumulation_steps=2,
        normalize=normalize,  # type: ignore[arg-type]
        count=(lambda batch: len(batch)) if normalize == "items" else None,
    )
    with pytest.raises(UsageError, match="passed as a sum"):
        for x in acc.window([X, X[:2]]):
            acc.backward(F.cross_entropy(LAYER(x), Y[: len(x)]), reduction="sum")


def test_where_micro_batches_are_divided_by_their_number_either_may_be_said() -> None:
    acc = GradientAccumulator(LAYER, torch.optim.SGD(LAYER.parameters(), 0.0), accumulation_steps=2, normalize="steps")
    for claimed in ("sum", "mean"):
        for x in acc.window([X, X[:2]]):
            acc.backward(F.cross_entropy(LAYER(x), Y[: len(x)]), reduction=claimed)  # type: ignore[arg-type]
        assert acc.step().stepped


def test_without_a_look_at_factors_right_losses_would_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduction, "_by", lambda factor, below, items: below)
    with pytest.raises(UsageError):
        check_reduction(SUMS["mean times the count"](), "sum", N)
    with pytest.raises(UsageError):
        check_reduction(MEANS["sum, times one over the count"](), "mean", N)


def test_without_a_look_below_sums_right_losses_would_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduction, "_is_of_losses", lambda node, depth: True)
    with pytest.raises(UsageError):
        check_reduction(MEANS_UNSAID["weights of sum 1"](), "mean", N)
