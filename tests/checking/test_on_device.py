"""gw.check, gw.check_loss and gw.explain_nonfinite on a device that stands in for an accelerator, and on two."""

import pytest
import torch
from tests import stand_in_device
from tests.stand_in_device import counted_waits, on_stand_in_device
from torch import Tensor

import gradwright as gw
from gradwright.checking.chance import reproducible
from gradwright.checking.losses.kinds import draw
from gradwright.checking.losses.loss import Loss
from gradwright.checking.nonfinite.looks import all_finite
from gradwright.errors import UsageError
from gradwright.ground.random_states import RandomState, accelerators_in_use


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        return 2 * x * cotangent


class Halved(Square):
    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        return x * cotangent


class Moved(torch.autograd.Function):
    """Onto the device of the first; the second's gradient is left there."""

    @staticmethod
    def forward(ctx, x, y):
        return x + y.to(x.device)

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent, cotangent


def codes(report) -> set[str]:
    return {finding.code for finding in report.findings}


@on_stand_in_device
def test_a_second_device_changes_no_verdict() -> None:
    x = torch.randn(5, 4)
    there = x.to(stand_in_device.SECOND).requires_grad_()
    for function, verdict in ((Square, "right"), (Halved, "wrong")):
        reports = [gw.check(function, given, level="quick") for given in (x.clone().requires_grad_(), there)]
        assert [report.verdicts[0].verdict for report in reports] == [verdict, verdict]
        assert codes(reports[0]) == codes(reports[1])
        assert [line.what for line in reports[0].not_checked] == [line.what for line in reports[1].not_checked]


@on_stand_in_device
def test_a_function_of_inputs_on_two_devices_is_judged() -> None:
    one, two = (torch.ones(3, device=d).requires_grad_() for d in (stand_in_device.FIRST, stand_in_device.SECOND))
    (finding,) = gw.check(Moved, one, two, level="quick").findings
    assert (finding.code, finding.cause) == ("GW212", "device")
    assert "standin:0" in finding.why and "standin:1" in finding.why
    moved_back = gw.custom_gradient(lambda x, y: x + y.to(x.device), lambda c, x, y: (c, c.to(y.device)))
    report = gw.check(moved_back, one, two, level="quick")
    assert [verdict.verdict for verdict in report.verdicts] == ["right", "right"] and not report.findings


@on_stand_in_device
def test_random_numbers_of_every_device_are_the_same_in_each_call_and_the_callers_come_back() -> None:
    before = RandomState.now(accelerators_in_use())
    drawn = []
    for _ in range(2):
        with reproducible(3):
            drawn.append([torch.rand(2, device=device).cpu() for device in before.devices])
    assert all(map(torch.equal, *drawn)) and before.equals(RandomState.now(before.devices))


def halved(prediction: Tensor, target: Tensor) -> Tensor:
    return Halved.apply(prediction - target).mean()


@on_stand_in_device
def test_a_loss_is_examined_where_its_prediction_is() -> None:
    there = [torch.randn(4, 3, device=stand_in_device.SECOND) for _ in range(2)]
    seen = set()

    def noted(prediction: Tensor, target: Tensor) -> Tensor:
        seen.update((prediction.device, target.device))
        return halved(prediction, target)

    report = gw.check_loss(noted, *there, level="quick", kind="other")
    assert seen == {stand_in_device.SECOND}
    assert report.verdicts[0].verdict == "wrong"
    assert codes(report) == codes(
        gw.check_loss(halved, *[tensor.cpu() for tensor in there], level="quick", kind="other")
    )


@on_stand_in_device
def test_a_loss_whose_weights_are_on_a_device_gets_its_samples_there_and_answers_on_the_cpu() -> None:
    weights = torch.tensor([1.0, 2.0, 0.5])
    sample = draw("class logits", (5, 3), torch.Generator().manual_seed(0))
    slopes = []
    for device in (torch.device("cpu"), stand_in_device.SECOND):
        loss = Loss(torch.nn.CrossEntropyLoss(weight=weights.to(device)))
        assert loss.device == device and loss.accepts(sample)
        slopes.append(loss.slope(sample))
    torch.testing.assert_close(*[[torch.tensor(value), gradient] for value, gradient in slopes])


@on_stand_in_device
def test_a_prediction_and_a_target_on_two_devices_are_refused_by_name() -> None:
    prediction, target = (torch.ones(3, device=d) for d in (stand_in_device.FIRST, stand_in_device.SECOND))
    with pytest.raises(UsageError, match=r"prediction is on standin:0, the target on standin:1") as refused:
        gw.check_loss(torch.nn.functional.mse_loss, prediction, target)
    assert "target.to('standin:0')" in str(refused.value)


@on_stand_in_device
def test_where_nan_begins_is_reported_without_drawing_of_the_device(capfd: pytest.CaptureFixture[str]) -> None:
    x = torch.full((3,), -1.0, device=stand_in_device.SECOND, requires_grad=True)
    before = RandomState.now(accelerators_in_use())
    with gw.explain_nonfinite():
        torch.nn.functional.binary_cross_entropy_with_logits(x.log(), x.detach()).backward()
    assert "NaN begins in log" in capfd.readouterr().err and before.equals(RandomState.now(before.devices))


@on_stand_in_device
def test_while_a_cuda_graph_is_captured_nothing_is_looked_at() -> None:
    bad = torch.full((3,), torch.nan, device=stand_in_device.SECOND)
    assert not all_finite(bad)
    stand_in_device.begin_a_capture()
    with counted_waits() as waits:
        assert all_finite(bad)
    assert waits == []


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@on_stand_in_device
def test_under_autocast_of_either_kind_what_is_wrong_is_wrong_and_what_is_right_is_right(dtype: torch.dtype) -> None:
    product = gw.custom_gradient(lambda x, w: x @ w, lambda c, x, w: (0.5 * c @ w.T, x.T @ c))
    for kind, device in (("cpu", torch.device("cpu")), ("standin", stand_in_device.SECOND)):
        x, w = torch.randn(5, 4, device=device).requires_grad_(), torch.randn(4, 3, device=device).requires_grad_()
        with torch.autocast(kind, dtype=dtype):
            verdicts = gw.check(product, x, w, level="quick").verdicts
        assert [one.verdict for one in verdicts] == ["wrong", "right"]
