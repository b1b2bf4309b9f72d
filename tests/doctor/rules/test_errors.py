"""Each error of autograd's, raised for real, is explained by its rule at the right line and column, and by no other."""

import contextlib
import io
import runpy
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.autograd import Function, grad
from torch.nn import functional as F

from gradwright.doctor.observe.errors.death import describe_death
from gradwright.doctor.rules import all_rules, judge
from gradwright.doctor.session.facts import GradientCount, ScriptDied
from gradwright.doctor.session.model import Subject
from gradwright.doctor.session.place import Location

CASES = Path(__file__).parents[2] / "cases"
SCRIPT = Subject("script", "script", "train.py", Location("train.py", 1))
HERE = Path(__file__).read_text(encoding="utf-8").splitlines()


def tracked(*shape):
    return torch.randn(*shape, requires_grad=True)


def death_of(work):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch warns before it refuses the legacy style
        try:
            work()
        except BaseException as error:
            return describe_death(
                error,
                is_user_file=lambda path: path == __file__ or path.startswith(str(CASES)),
                relative=lambda path: Path(path).name,
                subject_id=SCRIPT.id,
            )[1]
    raise AssertionError("it did not die")


def finding_of(work):
    (finding,) = judge([SCRIPT], [death_of(work)])
    return finding


def text_at(location):
    line = HERE[location.line - 1]
    return line[location.column - 1 : location.end_column - 1 if location.end_line == location.line else None]


def told(finding):
    return " | ".join([finding.message, finding.why, *finding.hints])


# --- raised for real -------------------------------------------------------------------------------------------------


class TooFew(Function):
    @staticmethod
    def forward(ctx, x, scale):
        return x * scale

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * 2


class TooMany(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output, grad_output


class AList(Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * y

    @staticmethod
    def backward(ctx, grad_output):
        return [grad_output, grad_output]


class NotSummed(Function):
    @staticmethod
    def forward(ctx, x, shift):
        return x + shift

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output, grad_output.sum(1)


class Legacy(Function):
    def __init__(self, scale):
        self.scale = scale

    def forward(self, x):  # type: ignore[override]
        return x * self.scale


class Combined(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * x


class NoVmap(Function):
    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass


class Aliasing(Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output


def too_few():
    TooFew.apply(tracked(3), tracked(3)).sum().backward()


def too_many():
    TooMany.apply(tracked(3)).sum().backward()


def a_list():
    AList.apply(tracked(3), tracked(3)).sum().backward()


def not_summed():
    NotSummed.apply(tracked(5, 3), tracked(3)).sum().backward()


def legacy():
    Legacy(3)(tracked(2))


def combined_under_grad():
    torch.func.grad(lambda x: Combined.apply(x).sum())(torch.ones(3))


def without_vmap():
    torch.vmap(lambda x: NoVmap.apply(x))(torch.ones(3))


def vector_loss():
    output, target = tracked(64), torch.randn(64)
    residual = F.mse_loss(output, target, reduction="none")
    residual.backward()


def vector_output_of_grad():
    x = tracked(4)
    y = x.exp()
    grad(y, [x])


def vector_among_several():
    x = tracked(4)
    torch.autograd.backward([x.sum(), x * 3])


def complex_loss():
    z = torch.randn(1, dtype=torch.complex64, requires_grad=True)
    (z * 2).sum().backward()


def cut_by_item():
    weight = tracked(3)
    total = torch.tensor((weight * 2).sum().item())
    total.backward()


def cut_by_no_grad():
    weight = tracked(3)
    with torch.no_grad():
        energy = (weight * 2).sum()
    energy.backward()


def frozen_model():
    model = nn.Linear(3, 1).requires_grad_(False)
    labels = torch.randn(4, 1) > 0
    cost = F.binary_cross_entropy_with_logits(model(torch.randn(4, 3)), labels.float())
    cost.backward()


def twice():
    x = tracked(3)
    y = x.exp().sum()
    y.backward()
    y.backward()


def twice_in_a_function():
    x = tracked(3)
    y = Combined.apply(x).sum()
    y.backward()
    y.backward()


def made_outside_the_loop():
    weight = tracked(3)
    features = weight.exp()
    for step in range(3):
        value = (features * step).sum()
        value.backward()


def saved_then_written():
    x = tracked(3)
    y = x.exp()
    y += 1
    y.sum().backward()


def parameter_stepped_between():
    layer = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    out = layer(layer(torch.randn(2, 4))).sum()
    out.backward(retain_graph=True)
    optimizer.step()
    out.backward()


def leaf_written():
    w = nn.Parameter(torch.zeros(3))
    w += 1


def leaf_written_through_view():
    w = tracked(3)
    w[0] = 1


def unused_input():
    x, z = tracked(3), tracked(2)
    grad(x.exp().sum(), [x, z])


def slice_made_after():
    x = tracked(5, 2)
    grad(x.exp().sum(), x[:, :1])


def untracked_input():
    x, data = tracked(3), torch.ones(3)
    grad((x * data).sum(), [data])


def split_written():
    a, _ = (tracked(4) * 2).split(2)
    a += 1


def function_output_written():
    y = Aliasing.apply(tracked(3) * 2)
    y.mul_(3)


def no_grad_view_written():
    x = tracked(4) * 2
    with torch.no_grad():
        head = x[:2]
    head.add_(1)


def mask_inverted():
    mask = torch.randn(3) > 0
    return 1 - mask


def mask_negated():
    mask = torch.randn(3) > 0
    return -mask


def masks_subtracted():
    first, second = torch.randn(3) > 0, torch.randn(3) > 0
    return first - second


def numpy_of_tracked():
    curve = tracked(3) * 2
    return curve.numpy()


def array_of_tracked():
    curve = tracked(3) * 2
    return np.asarray(curve)


def missing_key():
    return {"lr": 0.1}["learning_rate"]


RAISED = [
    (too_few, "GW201", "grad_output * 2", ["returns 1 gradient;", "takes 2 inputs", "(x, scale)"]),
    (too_many, "GW201", "grad_output, grad_output", ["returns 2 gradients;", "takes 1 input"]),
    (a_list, "GW201", "[grad_output, grad_output]", ["is a list", "return a tuple"]),
    (not_summed, "GW203", "grad_output.sum(1)", ["shape [5]", "shift (input 1) of shape [3]"]),
    (legacy, "GW207", "Legacy(3)(tracked(2))", ["Legacy.apply"]),
    (combined_under_grad, "GW208", "Combined.apply(x)", ["Combined has no setup_context"]),
    (without_vmap, "GW208", "NoVmap.apply(x)", ["generate_vmap_rule"]),
    (vector_loss, "GW611", "residual.backward()", ["residual has shape [64]", 'reduction="none"', "residual.mean()"]),
    (vector_output_of_grad, "GW611", "grad(y, [x])", ["y has shape [4]", "grad_outputs"]),
    (vector_among_several, "GW611", "torch.autograd.backward([x.sum(), x * 3])", ["x * 3 has shape [4]"]),
    (complex_loss, "GW611", "(z * 2).sum().backward()", ["complex64"]),
    (cut_by_item, "GW612", "total.backward()", ["`.item()`"]),
    (cut_by_no_grad, "GW612", "energy.backward()", ["with torch.no_grad()"]),
    (frozen_model, "GW612", "cost.backward()", ["model: 0 of 2 parameters"]),
    (twice, "GW613", "y.backward()", ["`y.backward()`"]),
    (twice_in_a_function, "GW613", "y.backward()", ["(x,) = ctx.saved_tensors"]),
    (made_outside_the_loop, "GW613", "value.backward()", ["`features`", "inside the loop"]),
    (saved_then_written, "GW614", "y.sum().backward()", ["shape [3]", "`y += 1`"]),
    (parameter_stepped_between, "GW614", "out.backward()", ["optimizer.step()"]),
    (leaf_written, "GW615", "w += 1", ["a parameter, shape [3]", "torch.no_grad()"]),
    (leaf_written_through_view, "GW615", "w[0]", ["through a view"]),
    (unused_input, "GW616", "grad(x.exp().sum(), [x, z])", ["`z` [2] (index 1)"]),
    (slice_made_after, "GW616", "grad(x.exp().sum(), x[:, :1])", ["`x[:, :1]` makes a new tensor"]),
    (untracked_input, "GW616", "grad((x * data).sum(), [data])", ["`data` [3]", "requires_grad_()"]),
    (split_written, "GW617", "a += 1", ["a.clone()"]),
    (function_output_written, "GW617", "y.mul_(3)", ["Function's backward"]),
    (no_grad_view_written, "GW617", "head.add_(1)", ["no_grad"]),
    (mask_inverted, "GW618", "1 - mask", ["~mask"]),
    (mask_negated, "GW618", "-mask", ["mask [3] is bool"]),
    (masks_subtracted, "GW618", "first - second", ["^"]),
    (numpy_of_tracked, "GW619", "curve.numpy()", ["curve.detach().cpu().numpy()", "[3]"]),
    (array_of_tracked, "GW619", "np.asarray(curve)", ["curve.detach().cpu().numpy()"]),
    (missing_key, "GW901", '{"lr": 0.1}["learning_rate"]', ["KeyError: 'learning_rate'"]),
]


APPLY_IN_C = not hasattr(torch.autograd.Function.__dict__["apply"], "__func__")


@pytest.mark.parametrize(("work", "code", "text", "words"), RAISED, ids=lambda item: getattr(item, "__name__", None))
def test_an_error_is_explained_at_its_expression(work, code, text, words):
    finding = finding_of(work)
    assert finding.code == code
    assert text_at(finding.location) == text
    for word in words:
        # With apply in C only the doctor's stand-in for it, which is not on here, has a frame that names the class.
        assert word.replace("Combined has", "the Function has" if APPLY_IN_C else "Combined has") in told(finding)


def test_the_second_of_two_calls_on_adjacent_lines_is_the_one_reported():
    finding = finding_of(twice)
    assert finding.location.line == twice.__code__.co_firstlineno + 4


def test_a_contract_finding_is_about_the_function_not_the_script():
    assert finding_of(too_few).subject == "TooFew"
    assert finding_of(not_summed).subject == "NotSummed"


def test_a_frozen_model_is_not_blamed_on_the_comparison_that_makes_its_labels():
    assert "comparison" not in told(finding_of(frozen_model))


# --- one finding per Function, one last resort -----------------------------------------------------------------------


def function_subject(name):
    return Subject(f"function:{name}", "function", name, Location("train.py", 9))


def test_a_probed_count_alone_gives_the_finding():
    subject = function_subject("Mul")
    count = GradientCount(id="count", subject=subject.id, expected=2, returned=1)
    (finding,) = judge([SCRIPT, subject], [count])
    assert (finding.code, finding.subject, finding.location.line) == ("GW201", "Mul", 9)


def test_a_probed_count_that_fits_is_no_finding():
    subject = function_subject("Mul")
    assert judge([SCRIPT, subject], [GradientCount(id="count", subject=subject.id, expected=2, returned=2)]) == []


def test_a_function_that_both_died_and_was_counted_is_reported_once():
    subject = function_subject("TooFew")
    count = GradientCount(id="count", subject=subject.id, expected=2, returned=1)
    alone = death_of(too_few)
    again = ScriptDied(id="again", subject=subject.id, type=alone.type, message=alone.message, details=alone.details)
    (finding,) = judge([SCRIPT, subject], [count, alone, again])
    assert finding.code == "GW201"


def test_another_function_is_still_reported_beside_the_one_that_died():
    subject = function_subject("Other")
    count = GradientCount(id="count", subject=subject.id, expected=3, returned=1)
    findings = judge([SCRIPT, subject], [death_of(too_few), count])
    assert sorted(finding.subject for finding in findings) == ["Other", "TooFew"]


def died(kind, message):
    return ScriptDied(id="died:script", subject="script", type=kind, message=message)


def test_an_unexplained_exception_is_the_last_resort():
    (finding,) = judge([SCRIPT], [died("ZeroDivisionError", "division by zero")])
    assert (finding.code, finding.severity) == ("GW901", "warning")
    assert "ZeroDivisionError: division by zero" in finding.message
    assert "examined" in finding.why


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, type("Stop", (SystemExit,), {})])
def test_an_end_that_was_asked_for_is_no_finding(kind):
    def work():
        raise kind(1)

    assert judge([SCRIPT], [death_of(work)]) == []


# --- older wordings, as text -----------------------------------------------------------------------------------------

WORDINGS = [
    ("GW201", "function MulBackward returned an incorrect number of gradients (expected 2, got 1)"),
    (
        "GW203",
        "Function MulBackward returned an invalid gradient at index 1 - got [4] but expected shape compatible with [3]",
    ),
    ("GW203", "Function MulBackward returned an invalid gradient at index 0 - expected shape [16, 3] but got [48, 1]"),
    ("GW207", "Legacy autograd function with non-static forward method is deprecated. Please use new-style"),
    (
        "GW208",
        "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), "
        "it must override the setup_context staticmethod. For more details, please see",
    ),
    ("GW611", "grad can be implicitly created only for scalar outputs"),
    ("GW611", "grad can be computed only for real scalar outputs but got torch.complex64"),
    ("GW612", "element 0 of tensors does not require grad and does not have a grad_fn"),
    ("GW612", "element 0 of variables does not require grad and does not have a grad_fn"),
    ("GW613", "Trying to backward through the graph a second time, but the buffers have already been freed."),
    (
        "GW614",
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        "[torch.FloatTensor [8, 3]], which is output 0 of ReluBackward0, is at version 2; expected version 0 instead.",
    ),
    (
        "GW614",
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        "[torch.cuda.FloatTensor []] is at version 1; expected version 0 instead.",
    ),
    ("GW614", "one of the variables needed for gradient computation has been modified by an inplace operation"),
    ("GW615", "a leaf Variable that requires grad is being used in an in-place operation."),
    ("GW615", "a leaf Variable that requires grad has been used in an in-place operation."),
    ("GW616", "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True"),
    ("GW616", "One of the differentiated Tensors does not require grad"),
    ("GW617", "Output 0 of SplitBackward0 is a view and is being modified inplace. This view is the output of"),
    (
        "GW617",
        "Output 1 of UnbindBackward0 is a view and its base or another view of its base has been modified inplace.",
    ),
    ("GW618", "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask"),
    ("GW619", "Can't call numpy() on Variable that requires grad. Use var.detach().numpy() instead."),
]


@pytest.mark.parametrize(("code", "message"), WORDINGS)
def test_an_older_wording_is_explained_from_the_message_alone(code, message):
    (finding,) = judge([SCRIPT], [died("RuntimeError", message)])
    assert finding.code == code
    assert finding.message
    assert finding.hints


@pytest.mark.parametrize(("code", "message"), WORDINGS)
def test_a_message_is_explained_by_one_rule_only(code, message):
    assert [rule.rule.code for rule in all_rules() if rule.rule.match(message)] == [code]


# --- the case folders ------------------------------------------------------------------------------------------------

OURS = sorted({code for code, _ in WORDINGS} | {"GW901"})


def run(path):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        runpy.run_path(str(path), run_name="__main__")
    return printed.getvalue()


@pytest.mark.parametrize("code", OURS)
def test_the_bad_case_dies_of_its_error(code):
    assert finding_of(lambda: run(CASES / code / "bad.py")).code == code


@pytest.mark.parametrize("code", OURS)
def test_the_good_case_runs_to_its_end(code):
    assert run(CASES / code / "good.py").strip()
