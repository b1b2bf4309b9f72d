"""``gw.check_loss`` as a caller meets it: losses of every form, examples, bad input, limits, nothing of his changed."""

import functools
import io
import itertools
import time
from contextlib import redirect_stdout

import pytest
import torch
import torch.nn.functional as F

import gradwright as gw
from gradwright.checking.losses.properties import all_properties
from gradwright.errors import GradientError, UsageError


class HuberByMasks(torch.nn.Module):
    """The second mask is one minus the error, where one minus the first mask was meant."""

    def __init__(self, limit=1.0):
        super().__init__()
        self.limit = limit

    def forward(self, prediction, target):
        gap = (prediction - target).abs()
        line = self.limit * gap - self.limit**2 / 2
        inside = gap <= self.limit
        outside = 1 - gap
        return torch.mean(line * outside + inside * gap.square() / 2)


def mse(prediction, target):
    return ((prediction - target) ** 2).mean()


def without_offset(prediction, target):
    error = (prediction - target).abs()
    return torch.where(error <= 1, 0.5 * error**2, error).mean()


@pytest.mark.parametrize("limit", [0.5, 1.0, 2.0])
def test_a_huber_by_masks_is_rejected_for_its_masks_alone(faults, limit):
    assert faults(HuberByMasks(limit)) == {("GW501", "masks", "masks complement each other")}


def test_what_follows_from_the_masks_is_told_as_information():
    report = gw.check_loss(HuberByMasks())
    follows = {f.cause for f in report.findings if f.code == "GW504" and "follows from GW501" in f.why}
    assert follows == {"negative", "falls as the error grows", "jumps"}


def test_the_properties_come_in_order_and_each_has_a_title_of_its_own():
    found = all_properties()
    assert [p.number for p in found] == sorted({p.number for p in found})
    assert len({p.title for p in found}) == len(found) == 15


@pytest.mark.parametrize(
    "loss",
    [
        mse,
        lambda prediction, target: (prediction - target).abs().mean(),
        torch.nn.SmoothL1Loss(),
        functools.partial(F.huber_loss, delta=3.0),
        lambda prediction, target: prediction.sub_(target).pow_(2).mean(),
        lambda prediction, target: (F.dropout(prediction - target, 0.2) ** 2).mean(),
    ],
    ids=["function", "lambda", "module", "partial", "in place", "random"],
)
def test_losses_of_every_form_are_taken(loss):
    assert gw.check_loss(loss).ok


def test_keras_order_is_read_off_the_names():
    def crossentropy(y_true, y_pred):
        return F.binary_cross_entropy_with_logits(y_pred, y_true)

    assert gw.check_loss(crossentropy).ok
    assert gw.check_loss(crossentropy, torch.randn(5), torch.tensor([0.0, 1, 1, 0, 1])).ok


def test_a_loss_that_takes_float32_only_is_judged_in_float32():
    def single(prediction, target):
        assert prediction.dtype is torch.float32
        return (prediction - target).abs().mean()

    assert gw.check_loss(single).ok


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_examples_may_be_of_any_precision(dtype):
    assert gw.check_loss(mse, torch.randn(4).to(dtype), torch.randn(4).to(dtype)).ok


def test_examples_of_other_shapes_and_labels_are_taken():
    images, labels = torch.randn(2, 3, 4, 4), torch.randint(0, 3, (2, 4, 4))
    assert gw.check_loss(F.cross_entropy, images, labels).ok
    assert gw.check_loss(F.cross_entropy, torch.randn(5, 3), torch.tensor([0, -100, 2, 1, -100])).ok
    assert gw.check_loss(F.mse_loss, torch.tensor(1.0), torch.tensor(2.0)).ok


def test_what_a_kind_cannot_be_asked_is_not_checked():
    report = gw.check_loss(F.poisson_nll_loss)
    assert report.ok
    assert any("never negative" in line.what and "no function of an error" in line.why for line in report.not_checked)


def test_the_kind_can_be_said():
    def critic(real, fake):
        return fake.mean() - real.mean()

    assert gw.check_loss(critic).ok
    assert not gw.check_loss(critic, kind="regression").ok


BY_DESIGN = {
    "nonnegative": lambda p, t: ((p - t) ** 2).mean() - 0.1,
    "zero_at_target": lambda p, t: ((p - t) ** 2).mean() + 0.5,
    "minimum_at_target": lambda p, t: ((p - t).abs() * torch.exp(-(p - t).abs())).mean(),
    "continuous": without_offset,
}


@pytest.mark.parametrize("name", BY_DESIGN)
def test_what_does_not_hold_by_design_can_be_left_out(name):
    assert not gw.check_loss(BY_DESIGN[name]).ok
    assert gw.check_loss(BY_DESIGN[name], **{name: False}).ok


@pytest.mark.parametrize("name", BY_DESIGN)
def test_what_is_asked_for_is_an_error_where_it_does_not_hold(name):
    report = gw.check_loss(BY_DESIGN[name], **{name: True})
    assert "error" in {finding.severity for finding in report.findings}


def test_quick_and_full_run_fewer_and_more():
    titles = [{done.check for done in gw.check_loss(mse, level=level).done} for level in ("quick", "standard", "full")]
    assert titles[0] < titles[1] == titles[2] == {held.title for held in all_properties()}


# --- what is the caller's --------------------------------------------------------------------------------------------


def test_nothing_of_the_callers_is_changed():
    module = torch.nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5]))
    prediction, target = torch.randn(5, 3, requires_grad=True), torch.arange(5) % 3
    before = prediction.detach().clone()
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    gw.check_loss(module, prediction, target)
    assert torch.equal(prediction, before) and prediction.grad is None
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_default_dtype() is torch.float32 and torch.get_num_threads() == threads
    assert module.weight.dtype is torch.float32 and module.reduction == "mean"


def test_buffers_that_a_loss_writes_stay_as_they_were():
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, prediction, target):
            self.calls += 1  # type: ignore[assignment]
            return ((prediction - target) ** 2).mean()

    counting = Counting()
    assert gw.check_loss(counting).ok
    assert counting.calls == 0


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "args", "options", "words"),
    [
        (3, (), {}, "this is a int"),
        (torch.nn.MSELoss, (), {}, "the class MSELoss"),
        (lambda p, t: None, (), {}, "returns a NoneType"),
        (lambda a, b, *, c: a.sum(), (), {}, "give an example"),
        (mse, (torch.zeros(3), torch.zeros(4)), {}, "raises on this prediction"),
        (mse, (torch.zeros(3),), {}, "without a target"),
        (mse, ([1.0], torch.zeros(1)), {}, "prediction is a list"),
        (mse, (torch.zeros(0), torch.zeros(0)), {}, "empty"),
        (mse, (torch.tensor([float("nan")]), torch.zeros(1)), {}, "NaN"),
        (mse, (torch.arange(3), torch.arange(3)), {}, "floating-point"),
        (mse, (), {"kind": "classification"}, "kind is 'classification'"),
        (mse, (), {"level": "slow"}, "level is 'slow'"),
        (mse, (), {"mask": "weights"}, "no argument 'weights'"),
        (mse, (), {"references": {"huber": 1}}, "the reference huber is a int"),
    ],
)
def test_bad_input_is_a_clear_error(loss, args, options, words):
    with pytest.raises(UsageError, match=words) as caught:
        gw.check_loss(loss, *args, **options)
    assert "\n  do   " in str(caught.value)


def test_a_loss_that_never_ends_is_an_error():
    def endless(prediction, target):
        for _ in itertools.count():
            pass

    with pytest.raises(UsageError, match="had not returned after"):
        gw.check_loss(endless, seconds=0.3)


def test_what_the_time_limit_left_out_is_told():
    def slow(prediction, target):
        time.sleep(0.02)
        return ((prediction - target) ** 2).mean()

    report = gw.check_loss(slow, seconds=1.5)
    assert any("continuous" in line.what and "time limit" in line.why for line in report.not_checked)


# --- the report ------------------------------------------------------------------------------------------------------


def test_the_report_reads_as_any_other():
    report = gw.check_loss(HuberByMasks())
    assert str(report).startswith("HuberByMasks: 1 fault found")
    assert "`outside`, which does not complement the mask `inside`" in str(report)
    assert report.findings[0].location.path.endswith("test_check_loss.py")
    with pytest.raises(GradientError, match="GW501"):
        report.raise_for_findings()


def test_the_counterexample_runs_without_gradwright_and_shows_the_fault():
    script = gw.check_loss(HuberByMasks(2.0)).counterexample
    assert "gradwright" not in script and "class HuberByMasks" in script and "HuberByMasks(limit=2.0)" in script
    shown = _printed(script)
    assert min(float(line.split()[1]) for line in shown.splitlines() if line.startswith("loss")) < 0


def test_the_counterexample_of_a_jump_is_one_error_on_either_side():
    shown = _printed(gw.check_loss(without_offset).counterexample)
    values = [float(line.split()[1]) for line in shown.splitlines() if line.startswith("loss")]
    assert values == pytest.approx([0.5, 1.0], abs=1e-4)


def test_a_right_loss_has_no_counterexample():
    assert gw.check_loss(F.mse_loss).counterexample == ""


def _printed(script):
    with redirect_stdout(io.StringIO()) as out:
        exec(compile(script, "counterexample.py", "exec"), {})
    return out.getvalue()
