"""The gradient noise scale of linear regression, where it is known, is found within the interval that is told."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradwright.errors import UsageError
from gradwright.training import GradientAccumulator, GradientNoiseScale, coupled_update
from gradwright.training.monitors import noise_scale
from gradwright.training.monitors.noise_estimate import NoiseScale, RatioOfMeans, _student

FEATURES, NOISE, SIZES = 6, 0.7, (4, 2, 7, 3)
SPREAD = torch.linspace(0.5, 1.5, FEATURES, dtype=torch.float64)  # standard deviations of the features
OFF = torch.linspace(-0.4, 0.6, FEATURES, dtype=torch.float64)  # the weights, less the true ones


def truth() -> tuple[float, float]:
    """|G|² and tr(Sigma) of 0.5 (x·w - y)², y = x·w* + NOISE e, at w = w* + d, with x normal of covariance C:

    G = C d; E g g' = (d'C d + NOISE²) C + 2 C d d'C; Sigma = E g g' - G G', so that
    tr(Sigma) = (d'C d + NOISE²) tr(C) + |C d|².
    """
    covariance = SPREAD**2
    gradient = covariance * OFF
    trace = (float((OFF * gradient).sum()) + NOISE**2) * float(covariance.sum()) + float(gradient.square().sum())
    return float(gradient.square().sum()), trace


def drawn(seed: int, windows: int, sizes: tuple[int, ...], off: Tensor = OFF) -> tuple[Tensor, Tensor]:
    """Inputs [windows, items, features] and targets [windows, items], at weights of zero."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(windows, sum(sizes), FEATURES, generator=generator, dtype=torch.float64) * SPREAD
    e = torch.randn(windows, sum(sizes), generator=generator, dtype=torch.float64)
    return x, -(x @ off) + NOISE * e


def estimated(
    seed: int, windows: int = 8, sizes: tuple[int, ...] = SIZES, how: str = "sum", off: Tensor = OFF, **options: Any
) -> NoiseScale:
    """The parameters stand still: every window is drawn from the same distribution."""
    model = nn.Linear(FEATURES, 1, bias=False).double()
    nn.init.zeros_(model.weight)
    noise = GradientNoiseScale(decay=1.0)
    acc = GradientAccumulator(
        model,
        torch.optim.SGD(model.parameters(), 0.0),
        accumulation_steps=len(sizes),
        normalize="items" if how == "items" else "samples",
        monitors=[noise],
        **options,
    )
    for inputs, targets in zip(*drawn(seed, windows, sizes, off), strict=True):
        for x, y in acc.window(list(zip(inputs.split(sizes), targets.split(sizes), strict=True))):
            loss = 0.5 * (model(x).squeeze(-1) - y).square()
            loss = loss.mean() if how == "mean" else loss.sum()
            items = len(y) if how == "items" else None
            acc.backward(loss, reduction="mean" if how == "mean" else "sum", items=items)
        acc.step()
    return noise.estimate()


def pairs(seed: int, windows: int, sizes: tuple[int, ...] = SIZES) -> tuple[Tensor, Tensor]:
    """By hand, as an analysis of variance: tr(Sigma) is the variance of the k micro-gradients by their items, with
    k - 1 degrees of freedom, and |G|² is |g|² without its part of it. Shapes: [windows], [windows]."""
    inputs, targets = drawn(seed, windows, sizes)
    each = -(targets[..., None] * inputs)
    g = each.mean(1)
    micro = [part.mean(1) for part in each.split(sizes, 1)]
    off = sum(n * (one - g).square().sum(1) for n, one in zip(sizes, micro, strict=True))
    trace = off / (len(sizes) - 1)
    return trace, g.square().sum(1) - trace / sum(sizes)


def test_every_windows_estimates_are_those_of_an_analysis_of_variance() -> None:
    for windows in (1, 5):
        trace, squared_norm = pairs(0, windows)
        found = estimated(0, windows)
        assert found.trace == pytest.approx(float(trace.mean()), rel=1e-10)
        assert found.squared_norm == pytest.approx(float(squared_norm.mean()), rel=1e-10)
        assert found.batch == sum(SIZES) and found.windows == windows


def test_both_estimates_are_without_bias() -> None:
    squared_norm, trace = truth()
    traces, squared_norms = pairs(0, 40_000)
    assert float(traces.mean()) == pytest.approx(trace, rel=0.01)
    assert float(squared_norms.mean()) == pytest.approx(squared_norm, rel=0.01)


@pytest.mark.parametrize(("windows", "decay"), [(60, 1.0), (20, 1.0), (300, 0.97)])
def test_the_true_noise_scale_lies_within_the_interval_as_often_as_is_told(windows: int, decay: float) -> None:
    squared_norm, trace = truth()
    inside, ended = 0, 0
    for seed in range(200):
        noise = GradientNoiseScale(decay=decay)
        for pair in zip(*(one.tolist() for one in pairs(seed, windows)), strict=True):
            noise._ratio.add(*pair)
        found = noise.estimate()
        ended += found.noise_scale is not None
        inside += found.low <= trace / squared_norm <= found.high
    assert inside >= 182 and ended >= 195  # of 200 at 95 %, fewer than 182 in 1 of 200 trials


def _same(one: NoiseScale, other: NoiseScale) -> bool:
    figures = ("squared_norm", "trace", "noise_scale", "low", "high")
    return all(math.isclose(getattr(one, name), getattr(other, name), rel_tol=1e-8) for name in figures)


@pytest.mark.parametrize(
    "options",
    [
        {"how": "mean"},
        {"how": "items"},
        {"separate": True},
        {"accumulate_dtype": torch.float64},
        {"scaler": True},
        {"scaler": True, "separate": True},
        {"weights": {"loss": 1.0}},
    ],
    ids=str,
)
def test_it_is_the_same_however_the_gradients_are_summed_up(options: dict[str, Any]) -> None:
    if "scaler" in options:
        options = options | {"scaler": torch.amp.GradScaler("cpu", init_scale=4096.0)}
    assert _same(estimated(3, **options), estimated(3))


@pytest.mark.parametrize(
    "fault",
    ["mean of micro-batches", "not divided", "one fewer", "biased"],
)
def test_wrong_formulas_are_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def weighted(self: GradientNoiseScale, counts: Tensor) -> Any:
        known = [(n, float(square)) for n, (_, square) in zip(counts.tolist(), self._seen, strict=True)]
        total = sum(n for n, _ in known)
        if fault == "mean of micro-batches":  # |g_i|² averaged without their items, called batches of n / m
            return total * sum(square / n**2 for n, square in known) / len(known), total, float(len(known)), total
        if fault == "not divided":
            return sum(square for _, square in known), total, float(len(known)), total
        return sum(square / n for n, square in known), total, float(len(known) - 1), total

    if fault == "biased":  # |g|² of the window taken for |G|²
        add = RatioOfMeans.add
        monkeypatch.setattr(RatioOfMeans, "add", lambda self, x, y: add(self, x, y + x / 16))
    else:
        monkeypatch.setattr(GradientNoiseScale, "_weighted", weighted)
    with pytest.raises(AssertionError):
        test_every_windows_estimates_are_those_of_an_analysis_of_variance()


def test_too_few_windows_are_told() -> None:
    found = estimated(0, windows=7)
    assert found.noise_scale is None and found.batch_size is None and found.why_not == "7 of 8 windows seen"
    assert str(found) == "gradient noise scale: not known (7 of 8 windows seen)"


def test_a_gradient_that_is_all_noise_is_told() -> None:
    found = estimated(0, windows=12, off=0 * OFF)
    assert found.noise_scale is None and "can't be told from noise" in found.why_not


def test_its_curves_are_drawn_once_it_is_known() -> None:
    noise = GradientNoiseScale(decay=1.0)
    for count, pair in enumerate(zip(*(one.tolist() for one in pairs(0, 40)), strict=True)):
        assert count >= 8 or not noise.curves()
        noise._ratio.add(*pair)
    found = noise.estimate()
    expected = {"noise_scale/items": found.noise_scale, "noise_scale/low": found.low, "noise_scale/high": found.high}
    assert noise.curves() == expected and found.noise_scale is not None


def test_windows_of_one_micro_batch_tell_nothing() -> None:
    assert "two micro-batches" in estimated(0, windows=3, sizes=(4,)).why_not


def _run(noise: GradientNoiseScale, loss_of: Any, **options: Any) -> None:
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    acc = GradientAccumulator(
        model, torch.optim.SGD(model.parameters(), 0.0), accumulation_steps=2, monitors=[noise], **options
    )
    for _ in range(8):
        acc.update(acc.window(list(torch.randn(2, 3, 2))), lambda x: loss_of(model(x)), reduction="sum")


def test_losses_that_are_counted_differently_have_no_noise_scale_together() -> None:
    def two(out: Tensor) -> Any:
        return {"a": (out.sum(), 3), "b": (out.square().sum(), 1)}

    with pytest.raises(UsageError, match="divided by different numbers of items"):
        _run(GradientNoiseScale(), two, separate=True)
    alone = GradientNoiseScale("b")
    _run(alone, two, separate=True)
    assert alone.estimate().windows == 8


def test_of_one_loss_it_is_what_it_is_without_the_other() -> None:
    alone, beside = GradientNoiseScale(), GradientNoiseScale("b")
    _run(alone, lambda out: out.square().sum(), normalize="samples")
    _run(beside, lambda out: {"a": 9 * out.sum(), "b": out.square().sum()}, normalize="samples", separate=True)
    one, other = alone.estimate(), beside.estimate()
    assert other.trace == pytest.approx(one.trace, rel=1e-5)
    assert other.squared_norm == pytest.approx(one.squared_norm, rel=1e-5)


def test_a_loss_that_is_not_kept_apart_is_told() -> None:
    with pytest.raises(UsageError, match="'b' is not kept apart"):
        _run(GradientNoiseScale("b"), lambda out: {"b": out.sum()}, normalize="samples")


def test_a_window_with_nan_that_nobody_looks_at_is_left_out() -> None:
    noise, model = GradientNoiseScale(), nn.Linear(1, 1, bias=False)
    acc = GradientAccumulator(
        model, torch.optim.SGD(model.parameters(), 0.0), accumulation_steps=2, normalize="samples", monitors=[noise],
        on_nonfinite="ignore",
    )  # fmt: skip
    for value in (1.0, math.nan, 2.0):
        acc.update(acc.window([torch.full((1, 1), value)] * 2), lambda x: model(x).sum(), reduction="sum")
    assert noise.estimate().windows == 2 and math.isfinite(noise.estimate().trace)


def test_a_coupled_loss_has_no_noise_scale() -> None:
    noise, model = GradientNoiseScale(), nn.Linear(2, 2)
    acc = GradientAccumulator(
        model, torch.optim.SGD(model.parameters()), accumulation_steps=2, normalize="samples", monitors=[noise]
    )
    window = acc.window(list(torch.randn(2, 3, 2)))
    coupled_update(acc, window, model, lambda out: torch.logdet(out.T @ out + torch.eye(2)))
    assert "couples samples" in noise.estimate().why_not


def test_two_calls_of_backward_in_a_micro_batch_are_refused() -> None:
    model = nn.Linear(2, 1)
    acc = GradientAccumulator(
        model, torch.optim.SGD(model.parameters()), accumulation_steps=2, normalize="samples",
        monitors=[GradientNoiseScale()],
    )  # fmt: skip
    with pytest.raises(UsageError, match="two calls of backward in one micro-batch"):
        for x in acc.window(list(torch.randn(2, 3, 2))):
            for name in "ab":
                acc.backward({name: model(x).sum()}, reduction="sum")


def test_it_looks_at_every_nth_window_only_and_holds_no_copy_between() -> None:
    noise = GradientNoiseScale(every=3)
    _run(noise, lambda out: out.square().sum(), normalize="samples")
    assert noise.estimate().windows == 3 and not noise._before


def test_it_goes_on_from_its_state() -> None:
    one, other = GradientNoiseScale(), GradientNoiseScale()
    _run(one, lambda out: out.square().sum(), normalize="samples")
    other.load_state_dict(one.state_dict())
    assert other.estimate() == one.estimate() and other.estimate().windows == 8


@pytest.mark.parametrize("decay", [0.8, 0.97, 1.0])
def test_the_running_sums_are_those_of_weighted_pairs(decay: float) -> None:
    pairs = torch.randn(30, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64) + torch.tensor([3, 5])
    ratio = RatioOfMeans(decay)
    for x, y in pairs.tolist():
        ratio.add(x, y)
    weights = decay ** torch.arange(29, -1, -1, dtype=torch.float64)
    mean = (weights[:, None] * pairs).sum(0) / weights.sum()
    centred = pairs - mean
    effective = weights.sum() ** 2 / weights.square().sum()
    covariance = (weights[:, None] * centred).T @ centred / (weights.sum() * (1 - 1 / effective)) / effective
    assert (ratio.x, ratio.y) == pytest.approx(mean.tolist(), rel=1e-12)
    low, high = ratio.interval() or (0.0, 0.0)
    t = _student(float(effective) - 1)
    for end in (low, high):  # Fieller: there the difference is t standard deviations
        along = torch.tensor([1.0, -end], dtype=torch.float64)
        assert float((mean @ along) ** 2) == pytest.approx(t**2 * float(along @ covariance @ along), rel=1e-9)
    assert low < ratio.x / ratio.y < high


@pytest.mark.parametrize(("degrees", "value"), [(7, 2.365), (20, 2.086), (100, 1.984)])
def test_students_quantile(degrees: int, value: float) -> None:
    assert _student(degrees) == pytest.approx(value, abs=0.01)


@pytest.mark.parametrize("options", [{"decay": 0.0}, {"decay": 1.1}, {"every": 0}])
def test_what_is_no_option_is_told(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        GradientNoiseScale(**options)


def test_the_estimate_reads_as_a_sentence() -> None:
    known = NoiseScale(312.4, 240.0, 420.0, 1.0, 312.4, 64, 128.0)
    assert str(known) == (
        "gradient noise scale: 312 items (95 %: 240 to 420), over 64 windows; a window has 128: a larger one would "
        "save steps at little cost in items"
    )
    assert noise_scale._LEAST == 8
