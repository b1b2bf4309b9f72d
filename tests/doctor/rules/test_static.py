"""The rules that read what the text says (GW204, GW206, GW501) and what became of the loss (GW502)."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from gradwright.doctor.rules import judge
from gradwright.doctor.rules.contract import backward_never_connected, builtin_used_as_tensor
from gradwright.doctor.rules.numerics import loss_not_finite, masks_do_not_complement
from gradwright.doctor.session.facts import BuiltinAsTensor, Fact, LoopShape, LossValues, MaskPair, PlainBackward
from gradwright.doctor.session.model import Finding, Subject
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.files import read
from gradwright.doctor.source.reading import read_facts

CASES = Path(__file__).parents[2] / "cases"
EXAMPLES = Path(__file__).parents[3] / "examples"
STATIC = ("GW204", "GW206", "GW501")

HERE = Location("train.py", 7, 1, 7, 30)
CALL = Subject(id="call", kind="gradient_call", name="backward in the script", location=Location("train.py", 40, 5))


def findings(path: Path) -> list[Finding]:
    return judge(*read_facts([read(path)], lambda path: Path(path).name))


def of(subject: Subject, *facts: Fact) -> list[Finding]:
    subjects = dict.fromkeys((subject, CALL))
    return [finding for finding in judge(subjects, facts) if finding.subject == subject.name]


def plain(name: str = "square_backward") -> Subject:
    return Subject(id="plain", kind="plain_backward", name=name, location=HERE)


def loss(**fields: object) -> LossValues:
    values: dict[str, object] = {"calls": 20, "first": 1.0, "last": 0.1, "lowest": 0.1, **fields}
    return LossValues(id="loss", subject="call", **values)  # type: ignore[arg-type]  # fields by name


@pytest.mark.parametrize("code", STATIC)
def test_the_bad_case_is_found_and_the_good_one_is_not(code: str):
    assert [finding.code for finding in findings(CASES / code / "bad.py")] == [code]
    assert findings(CASES / code / "good.py") == []


def test_a_backward_beside_its_forward_is_never_connected_and_names_a_builtin():
    found = {finding.code: finding for finding in findings(EXAMPLES / "cube" / "train.py")}
    assert list(found) == ["GW204", "GW206"]
    assert "cube_backward" in found["GW204"].message and "cube" in found["GW204"].why
    assert any("input" in hint for hint in found["GW204"].hints)
    assert "`input`" in found["GW206"].message


def test_the_huber_masks_are_found_where_the_complement_is_made():
    (finding,) = findings(EXAMPLES / "huber" / "mask_bug.py")
    assert finding.code == "GW501"
    lines = (EXAMPLES / "huber" / "mask_bug.py").read_text().split("\n")
    assert lines[finding.location.line - 1][finding.location.column - 1 : finding.location.end_column - 1] == "1 - gap"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*/mended.py")), ids=lambda path: path.parent.name)
def test_mended_examples_have_none(path: Path):
    assert findings(path) == []


# --- GW204 -----------------------------------------------------------------------------------------------------------


def test_a_backward_with_a_forward_is_an_error_and_one_without_a_warning():
    severities = [
        of(plain(), PlainBackward(id="p", subject="plain", parameters=("g",), references=0, forward=forward))[
            0
        ].severity
        for forward in ("square", "")
    ]
    assert severities == ["error", "warning"]


def test_a_backward_that_is_named_somewhere_is_left_alone():
    assert of(plain(), PlainBackward(id="p", subject="plain", parameters=("g",), references=1, forward="f")) == []


def test_the_message_says_whose_gradient_is_used():
    fact = PlainBackward(id="p", subject="plain", parameters=("g",), references=0, forward="square")
    (finding,) = of(plain(), fact)
    assert finding.message == "nothing ever calls square_backward: autograd uses its own gradient of square instead"
    assert finding.evidence == ("p",)


def test_a_method_is_told_to_move_into_a_function():
    fact = PlainBackward(id="p", subject="plain", parameters=("g",), references=0, forward="Net.forward")
    (finding,) = of(plain("Net.backward"), fact)
    assert "static methods" in finding.hints[0]


# --- GW206 -----------------------------------------------------------------------------------------------------------


def use(builtin: str, line: int) -> BuiltinAsTensor:
    at = Location("train.py", line, 5, line, 10)
    return BuiltinAsTensor(id=f"b{line}", subject="plain", builtin=builtin, location=at, function="f")


def test_uses_of_one_builtin_make_one_finding():
    found = of(
        Subject(id="plain", kind="plain_function", name="f", location=HERE),
        use("input", 3),
        use("input", 5),
        use("id", 6),
    )
    assert [(finding.location.line, finding.evidence) for finding in found] == [(3, ("b3", "b5")), (6, ("b6",))]
    assert "also on line 5" in found[0].message
    assert "parameter" in found[0].hints[0]


def test_in_a_backward_the_way_is_to_save_the_tensor():
    (finding,) = of(Subject(id="plain", kind="plain_function", name="A.backward", location=HERE), use("input", 3))
    assert "save_for_backward" in finding.hints[0]


# --- GW501 -----------------------------------------------------------------------------------------------------------

PAIR = MaskPair(
    id="m", subject="plain", mask="near", complement="far", compared="error", location=HERE, function="Huber.forward"
)
HUBER = Subject(id="plain", kind="plain_function", name="Huber.forward", location=HERE)


def test_masks_are_told_without_a_run():
    (finding,) = of(HUBER, PAIR)
    assert finding.message == "`far` does not complement the mask `near`"
    assert "1 - error" in finding.why and finding.evidence == ("m",)


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (
            {
                "first": -49.6,
                "lowest": -1e9,
                "first_negative_step": 0,
                "first_nonfinite_step": 14,
                "first_nonfinite": "nan",
            },
            "the loss was -49.6 at step 0 and nan from step 14 on",
        ),
        (
            {"lowest": -7.0, "first_negative_step": 3, "history": (2.0, 1.0, 0.5, -2.25)},
            "the loss was -2.25 at step 3",
        ),
        ({"first_nonfinite_step": 5, "first_nonfinite": "inf"}, "the loss was inf from step 5 on"),
        ({}, ""),
    ],
)
def test_what_the_loss_did_is_told_as_the_consequence(seen: dict[str, object], words: str):
    (finding,) = of(HUBER, PAIR, loss(**seen))
    assert finding.message.partition(": ")[2] == words
    assert finding.evidence == (("m", "loss") if words else ("m",))


# --- GW502 -----------------------------------------------------------------------------------------------------------


def test_a_finite_loss_is_left_alone():
    assert of(CALL, loss()) == []


def test_a_loss_that_diverges_is_told_with_its_values():
    seen = loss(last=math.nan, first_nonfinite_step=3, first_nonfinite="inf", history=(2.0, 1e6, 1e20, math.inf))
    (finding,) = of(CALL, seen)
    assert (finding.code, finding.location) == ("GW502", CALL.location)
    assert finding.message == "the loss is inf from step 3 on"
    assert "2 at step 0 and 1e+20 at step 2" in finding.why
    assert "diverged" in finding.hints[0]


def test_a_sudden_nan_points_at_logarithms_and_a_first_one_at_the_data():
    sudden = loss(last=0.5, first_nonfinite_step=2, first_nonfinite="nan", history=(1.0, 0.9, math.nan, 0.5))
    (finding,) = of(CALL, sudden)
    assert finding.message == "the loss was nan at step 2" and "logarithm" in finding.hints[0]
    (finding,) = of(CALL, loss(last=math.nan, first_nonfinite_step=0, first_nonfinite="nan", history=(math.nan,)))
    assert "from the start" in finding.hints[0]


def test_the_masks_are_the_cause_and_come_first():
    seen = loss(last=math.nan, first_nonfinite_step=3, first_nonfinite="nan", history=(-2.0, -9.0, -1e9, math.nan))
    found = judge([CALL, HUBER], [seen, PAIR])
    assert [finding.code for finding in found] == ["GW501", "GW502"]
    assert found[1].hints[0] == "this follows from GW501: mend that first"


@pytest.mark.parametrize(
    "module", [backward_never_connected, builtin_used_as_tensor, masks_do_not_complement, loss_not_finite]
)
def test_pages_have_all_their_sections(module):
    from gradwright.doctor.render.rule_pages import HEADINGS, sections

    assert set(HEADINGS) <= set(sections(module.__doc__))


# --- GW301 -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("full", "extrapolated", "words"),
    [(400, False, ": 400 op"), (9_000, True, ": about 9,000 op"), (400, True, ": more than 400 op")],
)
def test_a_count_that_was_cut_short_is_no_total(full: int, extrapolated: bool, words: str) -> None:
    loop = LoopShape(
        id="l", subject="loop", phase="loop", location=HERE, hot=HERE, iterations=200, operations=400, views=200,
        scalar_operations=200, full_operations=full, extrapolated=extrapolated, seconds=1.0, share_of_step=0.5,
        tried_on="x",
    )  # fmt: skip
    (found,) = of(Subject(id="loop", kind="loop", name="f", location=HERE), loop)
    assert words in found.message


CUBE = """
import torch
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x ** 3
    @staticmethod
    def backward(ctx, grad_output):
        return grad_output
class Sixth(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return Cube.forward(ctx, x) ** 2
    @staticmethod
    def backward(ctx, grad_output):
        return Cube.backward(ctx, grad_output)
"""


@pytest.mark.parametrize(
    ("use", "codes"),
    [
        ("y = Cube.forward(None, x)", ["GW205"]),
        ("y = Cube().forward(None, x)", ["GW205"]),
        ("y = Cube.apply(x)", []),
        ("apply = Cube.apply\ny = Cube.forward(None, x)", []),
        ("y = Sixth.apply(x)", []),
        ("y = model.forward(x)", []),
    ],
)
def test_a_forward_that_is_called_directly_leaves_its_backward_out(use: str, codes: list[str], tmp_path: Path):
    path = tmp_path / "train.py"
    path.write_text(CUBE + use + "\n")
    assert [finding.code for finding in findings(path)] == codes
