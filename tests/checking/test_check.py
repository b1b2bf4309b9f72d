"""``gw.check`` as a caller meets it: subjects of every kind, levels, input that can't be checked, a time limit."""

import time
from pathlib import Path

import pytest
import torch

import gradwright as gw
from gradwright.checking.checks import all_checks
from gradwright.errors import GradientError, GradwrightError, UsageError


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 2 * grad_output * x


class Halved(Square):
    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * x


# --- subjects --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("subject", [Square, Square.apply, lambda x: Square.apply(x), torch.sin, torch.nn.Tanh()])
def test_any_subject_that_is_right_is_ok(subject):
    report = gw.check(subject, torch.randn(4))
    assert report.ok, report
    assert [verdict.verdict for verdict in report.verdicts] == ["right"]


@pytest.mark.parametrize("subject", [Halved, Halved.apply])
def test_a_function_and_its_apply_are_the_same_subject(subject):
    report = gw.check(subject, torch.randn(4))
    assert report.subject == "Halved"
    assert [(finding.code, finding.cause, finding.input) for finding in report.findings] == [
        ("GW101", "constant factor", "x")
    ]


def test_a_callable_with_a_wrong_function_inside_is_wrong():
    report = gw.check(lambda x: Halved.apply(x).sum(), torch.randn(4))
    assert [finding.code for finding in report.findings] == ["GW101"]


def test_trees_of_tensors_are_opened_and_their_leaves_named():
    def loss(batch, pair):
        return batch["x"].exp().sum() + (pair[0] * pair[1]).sum()

    report = gw.check(loss, {"x": torch.randn(3), "index": torch.arange(3)}, [torch.randn(2), torch.randn(2)])
    assert report.ok, report
    assert [verdict.name for verdict in report.verdicts] == ["batch['x']", "pair[0]", "pair[1]"]


def test_outputs_may_be_trees_too():
    report = gw.check(lambda x: {"a": x.sin(), "b": [x.cos(), 3]}, torch.randn(3))
    assert report.ok, report


def test_of_a_module_the_parameters_are_judged_too():
    report = gw.check(torch.nn.Linear(3, 2), torch.randn(4, 3))
    assert report.ok, report
    assert [verdict.name for verdict in report.verdicts] == ["input", "weight", "bias"]


def test_a_module_keeps_its_buffers_its_gradients_and_its_parameters():
    module = torch.nn.BatchNorm1d(3)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    assert gw.check(module, torch.randn(5, 3)).ok
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert all(parameter.grad is None for parameter in module.parameters())


def test_only_inputs_that_require_a_gradient_are_judged_if_any_does():
    x, w = torch.randn(3, requires_grad=True), torch.randn(3)
    report = gw.check(lambda x, w: x * w, x, w)
    assert [verdict.name for verdict in report.verdicts] == ["x"]


def test_the_callers_tensors_random_state_and_defaults_are_left_alone():
    x = torch.randn(4, requires_grad=True)
    before, state, default = x.detach().clone(), torch.get_rng_state(), torch.get_default_dtype()
    gw.check(Halved, x)
    assert torch.equal(x, before) and x.grad is None
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_default_dtype() is default


def test_a_check_works_where_gradients_are_off():
    with torch.no_grad():
        assert not gw.check(Halved, torch.randn(3)).ok
    with torch.inference_mode():
        assert not gw.check(Halved, torch.randn(3)).ok


# --- the report ------------------------------------------------------------------------------------------------------


def test_the_report_raises_on_demand_with_itself_as_the_message():
    report = gw.check(Halved, torch.randn(4))
    with pytest.raises(GradientError, match="GW101"):
        report.raise_for_findings()
    gw.check(Square, torch.randn(4)).raise_for_findings()


def test_a_finding_says_where_the_gradient_is_written():
    (finding,) = gw.check(Halved, torch.randn(4)).findings
    assert finding.location.path.endswith("test_check.py")
    line = Path(__file__).read_text().splitlines()[finding.location.line]
    assert "def backward" in line


def test_the_evidence_names_the_element_and_both_values():
    x = torch.tensor([1.0, -3.0], dtype=torch.float64)
    (finding,) = gw.check(Halved, x).findings
    evidence = finding.evidence
    assert evidence["expected"] == pytest.approx(2 * evidence["returned"])
    assert evidence["worst_error"] == pytest.approx(0.5)
    assert evidence["factor"] == pytest.approx(0.5)


# --- levels ----------------------------------------------------------------------------------------------------------


def test_there_are_fifteen_checks_one_per_file_numbered_by_value():
    assert [check.number for check in all_checks()] == list(range(1, 16))


def test_quick_is_value_layout_mutation_and_contract():
    quick = {check.number for check in all_checks() if check.runs_at("quick")}
    assert quick == {1, 2, 3, 4, 9}


def test_an_unknown_level_is_told():
    with pytest.raises(UsageError, match="'quick', 'standard', 'full'"):
        gw.check(Square, torch.randn(3), level="deep")


# --- input that can't be checked -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ((), "no input"),
        ((3, "mean"), "int, str"),
        ((torch.arange(3),), r"int64\[3\]"),
        ((torch.ones(3, dtype=torch.bool),), r"bool\[3\]"),
    ],
)
def test_without_a_floating_point_tensor_the_error_says_what_came_and_what_to_do(inputs, said):
    with pytest.raises(UsageError, match=said) as raised:
        gw.check(Square, *inputs)
    assert "do" in str(raised.value)


def test_what_is_not_callable_is_told():
    with pytest.raises(UsageError, match="this is a Tensor"):
        gw.check(torch.ones(3), torch.ones(3))


def test_the_class_of_a_module_is_told_from_an_instance():
    with pytest.raises(UsageError, match="an instance and its inputs"):
        gw.check(torch.nn.Tanh, torch.ones(3))


@pytest.mark.parametrize("value", [torch.empty(0), torch.empty(3, 0), torch.tensor([1.0, float("nan")])])
def test_empty_and_nan_inputs_are_unknown_with_the_reason(value):
    report = gw.check(Square, value)
    (verdict,) = report.verdicts
    assert verdict.verdict == "unknown" and verdict.reason
    assert report.not_checked


def raises(x):
    raise ValueError("only on Tuesdays")


def returns_nothing(x):
    return None


def returns_numbers(x):
    return 3, "a"


def returns_integers(x):
    return x.argmax()


@pytest.mark.parametrize("subject", [raises, returns_nothing, returns_numbers, returns_integers, torch.zeros_like])
def test_what_raises_or_returns_no_gradient_is_told_and_not_called_right(subject):
    try:
        report = gw.check(subject, torch.randn(3))
    except GradwrightError as error:
        assert str(error)
    else:
        assert report.not_checked
        assert not any(verdict.verdict == "right" for verdict in report.verdicts)


def test_a_function_that_raises_is_quoted():
    report = gw.check(raises, torch.randn(3))
    assert "only on Tuesdays" in " ".join(str(report).split())


class Endless(Square):
    @staticmethod
    def backward(ctx, grad_output):
        while True:
            time.sleep(0.01)


def never_ends(x):
    while True:
        x = x + 0


@pytest.mark.parametrize("subject", [Endless, never_ends])
def test_what_never_ends_is_stopped_at_the_time_limit_and_told(subject):
    report = gw.check(subject, torch.randn(3), seconds=1.0)
    assert any("time limit" in line.why for line in report.not_checked)


class EndlessFarOut(Square):
    """A series with as many terms as its argument is large; the boundary check asks for huge ones."""

    @staticmethod
    def forward(ctx, x):
        while bool((x.abs() > 100).any()):
            time.sleep(0.01)
        return Square.forward(ctx, x)


def test_a_check_that_does_not_end_leaves_time_for_the_others():
    report = gw.check(EndlessFarOut, torch.rand(3) + 0.5, seconds=9.0)
    (line,) = [line for line in report.not_checked if "time limit" in line.why]
    assert line.what == "boundary points"
    assert [verdict.verdict for verdict in report.verdicts] == ["right"]
    assert {"shapes", "low precision", "leaks", "parity"} <= {done.check for done in report.done}


def test_a_meta_tensor_has_no_values_to_check():
    report = gw.check(Square, torch.randn(3, device="meta"))
    assert report.not_checked and not report.findings


def test_sparse_input_is_told():
    report = gw.check(lambda x: x.to_dense() ** 2, torch.eye(3).to_sparse())
    assert not report.findings


class Reverse(torch.autograd.Function):
    """Gradient reversal: on purpose not the derivative."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, cotangent):
        return -cotangent


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "not declared"])
def test_a_network_with_a_surrogate_inside_is_judged_by_whether_it_is_declared(declared):
    subject = type("Reverse", (Reverse,), {})
    if declared:
        gw.surrogate(reason="gradient reversal")(subject)
    before, after = torch.randn(3, 3, dtype=torch.float64), torch.randn(3, 3, dtype=torch.float64)
    report = gw.check(lambda x: (subject.apply((x @ before).tanh()) @ after).tanh(), torch.randn(4, 3))  # type: ignore[attr-defined]
    assert [finding.code for finding in report.findings if finding.severity != "info"][:1] == (
        [] if declared else ["GW101"]
    )
    assert report.ok is declared
