"""Value and gradients in one pass: as often as can be, always right, and the same to the bit."""

import gc
import math
import threading
import weakref

import pytest
import torch

from gradwright.kernels.autograd.fusion import Fusion
from gradwright.kernels.autograd.one_pass import Prediction
from gradwright.kernels.elementwise import elementwise

FORMULA = "where(abs(x - y) < 1, 0.5*(x - y)**2, abs(x - y) - 0.5)"


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many outputs each launch had, in order."""
    seen: list[int] = []
    run = Fusion.run

    def counted(self, operands):
        seen.append(len(self.outputs))
        return run(self, operands)

    monkeypatch.setattr(Fusion, "run", counted)
    return seen


def _inputs() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    x, y = (torch.randn(4000, generator=generator) * 2 for _ in range(2))
    return x.requires_grad_(), y


def _slope(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Of the mean, in float64."""
    return (x.detach().double() - y.double()).clamp(-1, 1) / x.numel()


def test_a_loss_and_its_gradient_are_one_launch(launches) -> None:
    f, (x, y) = elementwise(FORMULA, reduction="mean"), _inputs()
    f(x, y).backward()
    assert launches == [2]
    torch.testing.assert_close(x.grad.double(), _slope(x, y), rtol=1e-5, atol=1e-9)


def test_a_scaled_loss_is_one_launch_from_the_second_time_on(launches) -> None:
    f, (x, y) = elementwise(FORMULA, reduction="mean"), _inputs()
    for _ in range(3):
        x.grad = None
        (f(x, y) * 65536.0).backward()
        torch.testing.assert_close(x.grad.double(), 65536.0 * _slope(x, y), rtol=1e-5, atol=1e-9)  # type: ignore[attr-defined]
    assert launches == [2, 2, 2, 2]


def test_a_wrong_prediction_changes_no_bit() -> None:
    x, y = _inputs()
    guessed, surprised = (elementwise(FORMULA, reduction="mean") for _ in range(2))
    guessed._prediction.learn(1 / 3)
    found = [torch.autograd.grad(f(x, y) * (1 / 3), x)[0] for f in (guessed, surprised)]
    assert torch.equal(*found)


def test_where_upstream_always_changes_nothing_is_predicted(launches) -> None:
    f, (x, y) = elementwise(FORMULA, reduction="mean"), _inputs()
    for scale in (2.0, 3.0, 4.0, 5.0, 5.0, 5.0):
        x.grad = None
        (f(x, y) * scale).backward()
        torch.testing.assert_close(x.grad.double(), scale * _slope(x, y), rtol=1e-5, atol=1e-9)  # type: ignore[attr-defined]
    #                    2     3     4     5     5     5
    assert launches == [2, 2, 2, 2, 1, 2, 1, 2, 1, 2, 2]


@pytest.mark.parametrize("upstream", [math.nan, math.inf, -0.0, 0.0, 1e-40], ids=str)
def test_an_upstream_that_is_no_common_number_is_multiplied_as_it_is(upstream) -> None:
    f, (x, y) = elementwise(FORMULA, reduction="sum"), _inputs()
    for _ in range(2):
        (found,) = torch.autograd.grad(f(x, y), x, torch.tensor(upstream))
        expected = torch.tensor(upstream) * (x.detach() - y).clamp(-1, 1)
        torch.testing.assert_close(found, expected, equal_nan=True, rtol=1e-5, atol=0)
        assert torch.equal(found.signbit(), expected.signbit()) or math.isnan(upstream)


def test_a_zero_is_not_predicted_by_a_negative_zero() -> None:
    f, x = elementwise("2*x", reduction="sum"), torch.ones(3, requires_grad=True)
    torch.autograd.grad(f(x), x, torch.tensor(-0.0))
    (found,) = torch.autograd.grad(f(x), x, torch.tensor(0.0))
    assert not found.signbit().any()


def test_gradients_of_two_backwards_share_no_memory() -> None:
    f, (x, y) = elementwise(FORMULA, reduction="mean"), _inputs()
    loss = f(x, y)
    first, second = (torch.autograd.grad(loss, x, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(first, second)
    first.zero_()
    assert torch.equal(second, torch.autograd.grad(loss, x)[0])


def test_a_hook_that_writes_on_the_gradient_does_not_reach_the_next_one() -> None:
    f, (x, y) = elementwise(FORMULA, reduction="mean"), _inputs()
    x.register_hook(lambda gradient: gradient.mul_(0))
    loss = f(x, y)
    assert not torch.autograd.grad(loss, x, retain_graph=True)[0].any()
    handle = x.register_hook(lambda gradient: None)
    handle.remove()
    assert not torch.autograd.grad(loss, x)[0].any()


def test_backwards_of_several_threads_at_once_are_right() -> None:
    f, (x, y) = elementwise(FORMULA, reduction="mean"), _inputs()
    found: list[torch.Tensor] = []
    for _ in range(10):
        loss = f(x, y)
        start = threading.Barrier(4)

        def pull(loss=loss, start=start) -> None:
            start.wait()
            found.append(torch.autograd.grad(loss, x, retain_graph=True)[0])

        threads = [threading.Thread(target=pull) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 40
    assert len({gradient.data_ptr() for gradient in found}) == 40
    assert all(torch.equal(gradient, found[0]) for gradient in found)


def test_an_input_that_is_changed_in_place_is_refused() -> None:
    f, (x, y) = elementwise(FORMULA, reduction="mean"), _inputs()
    loss = f(x, y)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_second_backward_through_a_freed_graph_is_refused() -> None:
    f, (x, y) = elementwise(FORMULA, reduction="mean"), _inputs()
    loss = f(x, y)
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_the_result_may_be_changed_in_place() -> None:
    f, (x, y) = elementwise(FORMULA, reduction="mean"), _inputs()
    loss = f(x, y)
    loss *= 3
    loss.backward()
    torch.testing.assert_close(x.grad.double(), 3 * _slope(x, y), rtol=1e-5, atol=1e-9)


def test_a_gradient_belongs_to_nobody_else() -> None:
    f, (x, y) = elementwise(FORMULA, reduction="mean"), _inputs()
    loss = f(x, y)
    loss.backward()
    gradient = weakref.ref(x.grad)
    gc.disable()
    try:
        x.grad = None
        assert gradient() is None
        del loss
        kept = weakref.ref(f(x, y).grad_fn)
        assert kept() is None  # a graph that is never used takes its gradients along
    finally:
        gc.enable()


def test_nothing_is_kept_beside_saved_tensors_hooks(launches) -> None:
    f, (x, y) = elementwise(FORMULA, reduction="mean"), _inputs()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        loss = f(x, y)
    loss.backward()
    assert launches == [1, 1]


def test_only_inputs_that_need_a_gradient_get_one(launches) -> None:
    f, (x, y) = elementwise(FORMULA, reduction="mean"), _inputs()
    f(x, y.requires_grad_()).backward()
    f(x.detach(), y).backward()
    assert launches == [3, 2]


def test_a_gradient_scaler_scales_and_unscales() -> None:
    f, (x, y) = elementwise(FORMULA, reduction="mean"), _inputs()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    optimizer = torch.optim.SGD([x], lr=1.0)
    before = x.detach().clone()
    scaler.scale(f(x, y)).backward()
    scaler.step(optimizer)
    scaler.update()
    torch.testing.assert_close((before - x.detach()).double(), _slope(before, y), rtol=1e-2, atol=1e-6)


def test_it_runs_under_anomaly_mode_and_deterministic_algorithms() -> None:
    f, (x, y) = elementwise(FORMULA, reduction="mean"), _inputs()
    torch.use_deterministic_algorithms(True)
    try:
        with torch.autograd.set_detect_anomaly(True, check_nan=True):
            f(x, y).backward()
    finally:
        torch.use_deterministic_algorithms(False)
    torch.testing.assert_close(x.grad.double(), _slope(x, y), rtol=1e-5, atol=1e-9)


def test_a_prediction_comes_back_after_a_repeated_upstream() -> None:
    prediction = Prediction()
    assert prediction.upstream() == 1.0
    prediction.learn(2.0)
    assert prediction.upstream() == 2.0
    prediction.learn(3.0)
    assert prediction.upstream() is None
    prediction.learn(3.0)
    assert prediction.upstream() == 3.0
