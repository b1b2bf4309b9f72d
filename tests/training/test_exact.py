"""k micro-batches are one batch: over random splits, masks, empty micro-batches, on one rank."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.training.token_model import (
    Batch,
    cross_entropy,
    drawn,
    flat,
    full_gradient,
    joined,
    kept,
    model_of,
    relative,
)
from tests.training.updates import BOUNDS, Case, difference
from torch import nn

from gradwright.errors import UsageError
from gradwright.training import GradientAccumulator

WINDOWS = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=5).filter(any), min_size=1, max_size=3)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Any way to say the items, of any splits; of the micro-batches some hold no item at all."""
    windows = tuple(tuple(sizes) for sizes in draw(WINDOWS))
    full = {at for sizes in windows for at in [max(range(len(sizes)), key=sizes.__getitem__)]}
    empty = tuple(draw(st.sets(st.integers(0, 4))) - full)
    how = draw(st.sampled_from(["count", "items", "samples", "mapping"]))
    dtype = draw(st.sampled_from([torch.float64, torch.float32]))
    options = draw(st.sampled_from([{}, {"accumulate_dtype": torch.float64}, {"separate": True}]))
    return Case(
        windows, empty, dtype, draw(st.sampled_from(["sum", "mean"])), how, options,
        max_norm=draw(st.sampled_from([None, 0.05])), decay=draw(st.sampled_from([None, 0.5])),
        seed=draw(st.integers(0, 10_000)),
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(cases())
def test_updates_are_those_of_the_full_batch(case: Case) -> None:
    assert difference(case) <= BOUNDS[case.dtype] * (1 if case.dtype == torch.float64 else 3)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=8).filter(any), st.integers(0, 1000), st.sampled_from(list(BOUNDS))
)
def test_the_gradient_is_that_of_the_full_batch(sizes: list[int], seed: int, dtype: torch.dtype) -> None:
    batches = drawn(sizes, dtype, seed)
    assert relative(_gradient(batches, dtype), full_gradient(batches, dtype)) <= BOUNDS[dtype]


def _gradient(batches: list[Batch], dtype: torch.dtype, **options: object) -> torch.Tensor:
    model = model_of(dtype)
    acc = _accumulator(model, accumulation_steps=len(batches), count=kept, **options)
    for batch in (window := acc.window(batches)):
        acc.backward(cross_entropy(model, batch, "sum"), reduction="sum")
    assert len(window) == len(batches) and acc.step().stepped
    return flat(model.parameters())


def _accumulator(model: nn.Module, **options: object) -> GradientAccumulator:
    return GradientAccumulator(model, torch.optim.SGD(model.parameters(), 0.0), progress=False, **options)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 40), st.integers(0, 1000), st.sampled_from([torch.float64, torch.float32, torch.bfloat16]),
    st.sampled_from(["sum", "mean"]), st.booleans(),
)  # fmt: skip
def test_one_micro_batch_is_the_plain_step_to_the_bit(
    size: int, seed: int, dtype: torch.dtype, reduction: str, counted: bool
) -> None:
    (batch,) = drawn([size], dtype, seed)
    plain, model = model_of(dtype), model_of(dtype)
    loss = cross_entropy(plain, batch, reduction)
    (loss / kept(batch).item() if reduction == "sum" else loss).backward()
    acc = _accumulator(model, accumulation_steps=1, count=kept if counted else None)
    for _ in acc.window([batch]):
        acc.backward(
            cross_entropy(model, batch, reduction), reduction=reduction, items=None if counted else kept(batch)
        )
    acc.step()
    for found, expected in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.equal(found.grad, expected.grad)


@pytest.mark.parametrize("how", ["count", "items"])
@pytest.mark.parametrize("options", [{}, {"accumulate_dtype": torch.float64}, {"separate": True}], ids=str)
def test_a_gradient_scaler_changes_nothing(options: dict[str, object], how: str) -> None:
    windows = ((3, 1, 4), (2, 2), (5,))
    case = Case(windows, dtype=torch.float32, how=how, options=options, scale=1024.0, max_norm=0.05, decay=0.5)
    assert difference(case) <= 1e-5


def test_batches_are_cut_into_micro_batches() -> None:
    (batch,) = drawn([11], torch.float64, 3)
    model = model_of()
    acc = _accumulator(model, micro_batch_size=4, count=kept)
    for window in acc.windows([batch]):
        assert [len(y) for _, y in window.batches] == [4, 4, 3]
        for piece in window:
            acc.backward(cross_entropy(model, piece, "sum"), reduction="sum")
        acc.step()
    assert relative(flat(model.parameters()), full_gradient([batch], torch.float64)) <= 1e-12


@pytest.mark.parametrize("steps", [1, 2, 3, 5, 7])
def test_the_short_last_window_has_its_own_count(steps: int) -> None:
    batches = drawn([2, 3, 1, 4, 2, 3, 5], torch.float64, 5)
    model = model_of()
    acc = _accumulator(model, accumulation_steps=steps, count=kept)
    expected = [batches[at : at + steps] for at in range(0, len(batches), steps)]
    for window, whole in zip(acc.windows(batches), expected, strict=True):
        for batch in window:
            acc.backward(cross_entropy(model, batch, "mean"), reduction="mean")
        update = acc.step()
        assert update.items == {"loss": float(kept(joined(whole)))}
        assert relative(flat(model.parameters()), full_gradient(whole, torch.float64)) <= 1e-12
        mean = cross_entropy(model, joined(whole), "mean").detach()
        assert update.loss == pytest.approx(float(mean), rel=1e-12)


def test_steps_are_the_mean_of_means() -> None:
    batches = drawn([2, 5, 3], torch.float64, 7)
    plain, model = model_of(), model_of()
    (sum(cross_entropy(plain, batch, "mean") for batch in batches) / 3).backward()
    acc = _accumulator(model, accumulation_steps=3, normalize="steps")
    for batch in acc.window(batches):
        acc.backward(cross_entropy(model, batch, "mean"), reduction="mean")
    acc.step()
    assert relative(flat(model.parameters()), flat(plain.parameters())) <= 1e-12


@pytest.mark.parametrize("how", ["count", "function", "items"])
def test_each_loss_has_its_own_denominator(how: str) -> None:
    """A cross entropy over labels that count, a square of the logits over samples."""
    batches = drawn([3, 1, 4, 0], torch.float64, 11, empty=(1,))
    plain, model = model_of(), model_of()
    x, y = joined(batches)
    logits = plain(x)
    (F.cross_entropy(logits, y) + logits.square().sum() / len(y)).backward()
    numbers = {"count": {"ce": kept, "square": lambda batch: len(batch[1])}}
    options = {
        "count": {"count": numbers["count"]},
        "function": {"count": lambda batch: {"ce": kept(batch), "square": len(batch[1])}},
        "items": {"separate": True},
    }[how]
    acc = _accumulator(model, accumulation_steps=4, **options)
    for x, y in acc.window(batches):
        logits = model(x)
        ce, square = F.cross_entropy(logits, y, reduction="sum"), logits.square().sum()
        said = how == "items"
        losses = {"ce": (ce, (y != -100).sum()) if said else ce, "square": (square, len(y)) if said else square}
        acc.backward(losses, reduction="sum")
    update = acc.step()
    assert relative(flat(model.parameters()), flat(plain.parameters())) <= 1e-12
    assert update.items == {"ce": float(kept(joined(batches))), "square": 8.0}


@pytest.mark.parametrize("said", [{"reduction": "sum"}, {}], ids=["said", "graph"])
@pytest.mark.parametrize("backwards", ["one", "two", "late"])
@pytest.mark.parametrize("options", [{}, {"accumulate_dtype": torch.float64}, {"separate": True}], ids=str)
def test_denominators_that_only_backward_says_are_kept_apart(
    options: dict[str, object], backwards: str, said: dict[str, str]
) -> None:
    """Without count= and separate=: both losses in one backward, one after the other, the second in two micro-batches
    only. Two windows, the second as clean as the first."""
    batches = drawn([3, 1, 4, 2], torch.float64, 11)
    plain, model = model_of(), model_of()
    x, y = joined(batches)
    late = joined(batches[2:])[0] if backwards == "late" else x
    (F.cross_entropy(plain(x), y) + plain(late).square().sum() / (3 * len(late))).backward()
    acc = _accumulator(model, accumulation_steps=4, **options)
    for _ in range(2):
        for step, batch in enumerate(acc.window(batches)):
            logits = model(batch[0])
            losses = {"ce": (F.cross_entropy(logits, batch[1], reduction="sum"), kept(batch))}
            square = {"square": (logits.square().sum(), 3 * len(batch[1]))}
            if backwards == "one":
                acc.backward(losses | square, **said)
                continue
            acc.backward(losses, retain_graph=True, **said)
            if backwards == "two" or step >= 2:
                acc.backward(square, **said)
        update = acc.step()
        assert update.items == {"ce": float(kept((x, y))), "square": 3.0 * len(late)}
        assert relative(flat(model.parameters()), flat(plain.parameters())) <= 1e-12


def test_a_mapping_may_hold_a_mean_and_a_sum_where_the_graphs_show_it() -> None:
    batches = drawn([3, 1, 4], torch.float64, 5)
    plain, model = model_of(), model_of()
    x, y = joined(batches)
    (F.cross_entropy(plain(x), y) + plain(x).square().sum() / len(y)).backward()
    acc = _accumulator(model, accumulation_steps=3)
    for batch in acc.window(batches):
        logits = model(batch[0])
        acc.backward(
            {"ce": (F.cross_entropy(logits, batch[1]), kept(batch)), "square": (logits.square().sum(), len(batch[1]))}
        )
    acc.step()
    assert relative(flat(model.parameters()), flat(plain.parameters())) <= 1e-12


@pytest.mark.parametrize("kind", ["one loss", "no graph shows it"])
def test_a_reduction_that_is_not_said_and_not_shown_is_asked_for(kind: str) -> None:
    model, (batch,) = model_of(), drawn([4], torch.float64, 0)
    acc = _accumulator(model, accumulation_steps=1)
    for x, y in acc.window([batch]):
        shown = F.cross_entropy(model(x), y)
        loss = shown if kind == "one loss" else {"loss": (shown.exp(), 4)}
        with pytest.raises(UsageError, match="how was the loss 'loss' made"):
            acc.backward(loss, items=4 if kind == "one loss" else None)
        break


def test_sparse_gradients_are_summed_divided_and_clipped() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(10, 4, sparse=True), nn.Flatten(), nn.Linear(8, 3)).double()
    x, y = torch.randint(10, (6, 2)), torch.randint(3, (6,))
    F.cross_entropy(model(x), y).backward()
    expected = _dense(model)
    for options in ({"normalize": "samples"}, {}, {"separate": True}, {"accumulate_dtype": torch.float64}):
        acc = _accumulator(model, micro_batch_size=2, max_norm=0.1, **options)
        for window in acc.windows([(x, y)]):
            for tokens, labels in window:
                items = None if "normalize" in options else len(labels)
                acc.backward(F.cross_entropy(model(tokens), labels, reduction="sum"), reduction="sum", items=items)
            update = acc.step()
        assert float(update.gradient_norm) == pytest.approx(float(expected.norm()), rel=1e-12)
        assert expected.norm() > 0.1 and relative(_dense(model), 0.1 * expected / expected.norm()) <= 1e-5


def _dense(model: nn.Module) -> torch.Tensor:
    return torch.cat([one.grad.to_dense().reshape(-1) for one in model.parameters()])


@pytest.mark.parametrize("wider", [None, torch.float64])
def test_complex_gradients_stay_complex(wider: torch.dtype | None) -> None:
    torch.manual_seed(0)
    model, x = nn.Linear(3, 2, dtype=torch.complex64), torch.randn(6, 3, dtype=torch.complex64)
    (model(x).abs().square().sum() / 6).backward()
    expected = [one.grad.clone() for one in model.parameters()]
    acc = _accumulator(model, micro_batch_size=2, normalize="samples", accumulate_dtype=wider)
    for window in acc.windows([x]):
        for piece in window:
            acc.backward(model(piece).abs().square().sum(), reduction="sum")
        acc.step()
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        assert (parameter.grad - gradient).norm() <= 1e-6 * gradient.norm()


def test_bfloat16_by_where_it_is_summed() -> None:
    """256 micro-batches of one sample against the float64 gradient; what is left in a float32 buffer is of the forwards
    and backwards, which are bfloat16 themselves."""
    batches = drawn([1] * 256, torch.bfloat16, 13)
    exact = model_of(torch.bfloat16).double()
    whole, labels = joined(batches)
    cross_entropy(exact, (whole.double(), labels), "mean").backward()
    expected = flat(exact.parameters())
    narrow = relative(_gradient(batches, torch.bfloat16), expected)
    wide = relative(_gradient(batches, torch.bfloat16, accumulate_dtype=torch.float32), expected)
    assert wide < 8e-3 < narrow, (wide, narrow)
