"""Gradients smoothed over updates: as the formula says, after the sum and before the clip."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradwright.errors import UsageError
from gradwright.training import GradientAccumulator, GradientEMA
from gradwright.training.smoothing import GradientEMA as Smoothed

WAYS = [(0.9, None), (0.5, None), (0.0, None), (0.98, 2.0), (0.8, -0.5)]


def oracle(gradients: Tensor, decay: float, lamb: float | None) -> Tensor:
    """Each window's, in float64, with the weights of all windows before written out. Shape: [windows, elements]."""
    smoothed = []
    for t in range(1, len(gradients) + 1):
        if lamb is None:
            weights = [(1 - decay) * decay ** (t - s) / (1 - decay**t) for s in range(1, t + 1)]
            smoothed.append(sum(w * g for w, g in zip(weights, gradients, strict=False)))
        else:
            weights = [decay ** (t - 1)] + [(1 - decay) * decay ** (t - s) for s in range(2, t + 1)]
            smoothed.append(gradients[t - 1] + lamb * sum(w * g for w, g in zip(weights, gradients, strict=False)))
    return torch.stack(smoothed)


def smoothed(ema: GradientEMA, gradients: Tensor, parameter: Tensor | None = None) -> Tensor:
    parameter = torch.zeros_like(gradients[0], requires_grad=True) if parameter is None else parameter
    found = []
    for gradient in gradients:
        parameter.grad = gradient.clone()
        ema.smooth([parameter])
        found.append(parameter.grad)
    return torch.stack(found)


def drawn(dtype: torch.dtype, windows: int = 12) -> Tensor:
    return torch.randn(windows, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize(("decay", "lamb"), WAYS)
@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-14), (torch.float32, 1e-6), (torch.bfloat16, 8e-3)])
def test_gradients_are_smoothed_as_the_formula_says(
    decay: float, lamb: float | None, dtype: torch.dtype, near: float
) -> None:
    gradients = drawn(dtype)
    expected = oracle(gradients.double(), decay, lamb)
    found = smoothed(GradientEMA(decay, lamb=lamb), gradients)
    assert found.dtype == dtype
    assert float((found.double() - expected).abs().max()) <= near * float(expected.abs().max())


@pytest.mark.parametrize(("decay", "lamb"), WAYS[:1] + WAYS[3:4])
@pytest.mark.parametrize(
    "wrong",
    [
        lambda mean, g, t, decay: mean.mul_(decay).add_(g),  # not weighted
        lambda mean, g, t, decay: mean.lerp_(g, decay),  # decay and 1 - decay confused
        lambda mean, g, t, decay: mean.lerp_(g, 1 - decay) if t > 1 else mean,  # the first one forgotten
    ],
)
def test_wrong_means_are_caught(decay: float, lamb: float | None, wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def one(self: GradientEMA, gradient: Tensor, mean: Tensor, update: int) -> None:
        wrong(mean, gradient, update, decay)
        gradient.copy_(mean / (1 - decay**update) if lamb is None else gradient + lamb * mean)

    monkeypatch.setattr(Smoothed, "_one", one)
    gradients = drawn(torch.float64)
    off = smoothed(GradientEMA(decay, lamb=lamb), gradients) - oracle(gradients, decay, lamb)
    assert float(off.abs().max()) > 1e-3


def test_a_constant_gradient_stays_what_it_is_from_the_first_update_on() -> None:
    constant = torch.ones(6, 2, dtype=torch.float64)
    assert torch.allclose(smoothed(GradientEMA(0.99), constant), constant, rtol=1e-13)
    assert torch.allclose(smoothed(GradientEMA(0.99, lamb=2.0), constant), 3 * constant, rtol=1e-13)


def test_a_parameter_without_a_gradient_keeps_its_mean_and_gets_none() -> None:
    ema, used, unused = GradientEMA(0.5), torch.zeros(1, requires_grad=True), torch.zeros(1, requires_grad=True)
    for update in range(3):
        used.grad, unused.grad = torch.ones(1), torch.tensor([4.0]) if update != 1 else None
        ema.smooth([used, unused])
        assert (unused.grad is None) == (update == 1)
    assert ema.state_dict()["updates"] == [3, 2] and float(unused.grad) == 4.0


def test_a_run_goes_on_from_its_state() -> None:
    gradients = drawn(torch.float32)
    whole = smoothed(GradientEMA(0.9), gradients)
    first, second = GradientEMA(0.9), GradientEMA(0.9)
    parameter = torch.zeros(5, requires_grad=True)
    smoothed(first, gradients[:5], parameter)
    second.load_state_dict(first.state_dict())
    smoothed(first, gradients, parameter)  # what it does later does not reach the copy
    assert torch.equal(smoothed(second, gradients[5:]), whole[5:])


def _accumulated(ema: GradientEMA, **options: Any) -> list[Tensor]:
    """The gradients that the optimizer got."""
    model = nn.Linear(3, 1, bias=False).double()
    acc = GradientAccumulator(
        model,
        torch.optim.SGD(model.parameters(), 0.0),
        accumulation_steps=2,
        normalize="samples",
        smoothing=ema,
        **options,
    )
    seen = []
    for inputs in drawn(torch.float64, 4)[:, :3]:
        window = acc.window([inputs[None], 3 * inputs[None]])
        acc.update(window, lambda x: model(x).sum(), reduction="sum")
        seen.append(model.weight.grad.reshape(-1).clone())
    return seen


def test_it_comes_after_the_sum_and_before_the_clip() -> None:
    expected = oracle(2 * drawn(torch.float64, 4)[:, :3], 0.5, None)
    clipped = expected * (0.1 / expected.norm(dim=1, keepdim=True)).clamp(max=1)
    found = torch.stack(_accumulated(GradientEMA(0.5), max_norm=0.1))
    assert float((found - clipped).norm()) <= 1e-5 * float(clipped.norm())  # torch's clip adds 1e-6 to the norm
    assert float((torch.stack(_accumulated(GradientEMA(0.5))) - expected).norm()) <= 1e-13 * float(expected.norm())


def test_it_sees_unscaled_gradients() -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    plain = torch.stack(_accumulated(GradientEMA(0.5)))
    assert torch.allclose(torch.stack(_accumulated(GradientEMA(0.5), scaler=scaler)), plain, rtol=1e-12)


def test_a_window_with_nan_leaves_the_means_alone() -> None:
    model = nn.Linear(1, 1, bias=False)
    ema = GradientEMA(0.5)
    acc = GradientAccumulator(
        model, torch.optim.SGD(model.parameters(), 0.1), accumulation_steps=1, normalize="samples", smoothing=ema,
        on_nonfinite="skip",
    )  # fmt: skip
    for value in (1.0, float("nan"), 1.0):
        acc.update(acc.window([torch.full((1, 1), value)]), lambda x: model(x).sum(), reduction="sum")
    assert ema.state_dict()["updates"] == [2] and float(model.weight.grad) == 1.0


def test_optimizers_that_evaluate_several_times_are_refused() -> None:
    model = nn.Linear(1, 1)
    with pytest.raises(UsageError, match="leave smoothing= out"):
        GradientAccumulator(
            model, torch.optim.LBFGS(model.parameters()), accumulation_steps=1, smoothing=GradientEMA(0.9)
        )


def test_one_for_two_accumulators_is_refused() -> None:
    ema, one, other = GradientEMA(0.9), torch.zeros(1, requires_grad=True), torch.zeros(1, requires_grad=True)
    one.grad = torch.ones(1)
    ema.smooth([one])
    with pytest.raises(UsageError, match="each accumulator needs one of its own"):
        ema.smooth([other])


def test_a_layer_that_is_unfrozen_begins_a_mean_of_its_own_and_the_others_go_on() -> None:
    ema, one, late = GradientEMA(0.5), torch.zeros(1, requires_grad=True), torch.zeros(1, requires_grad=True)
    for parameters in ([one], [late, one], [late]):
        one.grad, late.grad = torch.tensor([4.0]), torch.tensor([1.0])
        ema.smooth(parameters)
    assert late.grad.item() == 1.0
    one.grad, late.grad = torch.tensor([1.0]), torch.tensor([1.0])
    ema.smooth([one, late])
    assert one.grad.item() == 1.0 and late.grad.item() == 1.0  # what was frozen for a while begins anew


def test_means_of_another_list_of_layers_are_refused() -> None:
    ema, one = GradientEMA(0.5), torch.zeros(1, requires_grad=True)
    one.grad = torch.ones(1)
    ema.smooth([one])
    loaded = GradientEMA(0.5)
    loaded.load_state_dict(ema.state_dict())
    with pytest.raises(UsageError, match="which of its layers are frozen"):
        loaded.smooth([one, torch.zeros(1, requires_grad=True)])


@pytest.mark.parametrize("options", [{"decay": 1.0}, {"decay": -0.1}, {"decay": "x"}, {"decay": 0.9, "lamb": "2"}])
def test_what_is_no_decay_is_told(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="is a number"):
        GradientEMA(**options)
