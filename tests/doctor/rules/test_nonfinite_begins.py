"""GW511: where NaN or inf begins, each cause in words of its own, as one story from step 0 on."""

from __future__ import annotations

import math
from typing import Any, get_args

import pytest

from gradwright.checking.nonfinite.origins import Kind
from gradwright.doctor.rules import judge
from gradwright.doctor.rules.numerics.nonfinite_begins import RULE
from gradwright.doctor.rules.numerics.nonfinite_begins import judge as judged
from gradwright.doctor.rules.rule import Facts
from gradwright.doctor.session.facts import LossValues, NonfiniteBegins
from gradwright.doctor.session.model import Finding, Subject
from gradwright.doctor.session.place import Location

HERE = Location("train.py", 12, 9, 12, 22)
CALL = Subject(id="call", kind="gradient_call", name="backward in the script", location=Location("train.py", 40, 5))


def begin(**fields: object) -> NonfiniteBegins:
    known: dict[str, Any] = {"operation": "sqrt (SqrtBackward0)", "phase": "backward", "cause": "boundary"}
    known |= {"value": "inf"}
    known |= {"why": "The slope of sqrt is infinite at 0", "text": "torch.sqrt(s)", "loss_step": 3, "step": 2}
    return NonfiniteBegins(id="begins", subject="call", location=HERE, **(known | fields))  # type: ignore[arg-type]


def loss(*history: float) -> LossValues:
    step = next((step for step, value in enumerate(history) if not math.isfinite(value)), None)
    return LossValues(
        id="loss", subject="call", calls=len(history), first=history[0], last=history[-1], lowest=min(history),
        first_nonfinite_step=step, first_nonfinite="" if step is None else str(history[step]), history=history,
    )  # fmt: skip


def found(*facts: NonfiniteBegins | LossValues) -> Finding:
    (finding,) = judged(CALL, Facts(facts, CALL))
    return finding


def test_it_stands_where_the_operation_stands_with_entry_values_and_cause() -> None:
    fact = begin(entry=(3, 0), shape=(8, 2), operands=(("result", 0.0),), upstream=0.25, hints=("add something",))
    finding = found(fact, loss(1.0, 0.5, 0.25, math.nan))
    assert (finding.code, finding.location, finding.hints) == ("GW511", HERE, ("add something",))
    assert (
        finding.message == "inf begins in the backward of `torch.sqrt(s)`: its operand is where it has no finite slope"
    )
    assert finding.why == (
        "The loss was 1 at step 0, 0.25 at step 2, and nan at step 3. In step 2 (backward), entry [3, 0] of [8, 2] of "
        "the gradient it returns is inf (result 0, gradient that arrives 0.25). The slope of sqrt is infinite at 0."
    )
    assert finding.evidence == ("begins", "loss")


def test_the_story_says_when_it_grew_and_that_it_was_negative() -> None:
    why = found(begin(loss_step=4), loss(-49.6, -60.0, -1e6, -1e20, -math.inf)).why
    told = "-49.6 at step 0 (negative), -1e+06 at step 2, where it began to grow without bound, -1e+20 at step 3"
    assert why.startswith(f"The loss was {told}, and -inf at step 4. ")


def test_a_loss_that_was_not_finite_from_the_start_has_a_short_story() -> None:
    assert found(begin(loss_step=0), loss(math.nan)).why.startswith("The loss was nan at step 0. ")


def test_a_loss_that_was_never_differentiated_while_nan_is_told_up_to_there() -> None:
    assert found(begin(loss_step=2), loss(2.0, 1.5)).why.startswith("The loss was 2 at step 0, 1.5 at step 1. ")


@pytest.mark.parametrize("cause", get_args(Kind))
def test_each_cause_is_named_in_words_of_its_own(cause: str) -> None:
    message = found(begin(cause=cause, phase="forward")).message
    assert message.startswith("inf begins in `torch.sqrt(s)`")
    if cause not in ("unknown", "given"):
        assert ": " in message
    others = [found(begin(cause=other, phase="forward")).message for other in get_args(Kind) if other != cause]
    assert cause in ("unknown", "given") or message not in others


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"phase": "given", "operation": "`batch`", "cause": "given", "value": "nan"},
            "`batch` held NaN before anything was computed of it",
        ),
        (
            {"phase": "optimizer step", "operation": "SGD.step", "cause": "update", "text": "optimizer.step()"},
            "inf begins in `optimizer.step()`: the update itself",
        ),
        (
            {"phase": "inside backward", "cause": "division-by-zero", "text": "g / x"},
            "inf begins in `g / x`: a division by 0",
        ),
        ({"text": "a long ...", "cause": "unknown"}, "inf begins in the backward of sqrt (SqrtBackward0)"),
    ],
)
def test_each_phase_reads_as_what_it_was(fields: dict[str, object], message: str) -> None:
    assert found(begin(**fields)).message == message


def test_what_is_not_finite_stands_between_the_fault_of_the_masks_and_the_loss() -> None:
    assert RULE.causes == ("GW501", "GW631")
    codes = [finding.code for finding in judge([CALL], [begin(), loss(1.0, math.nan)])]
    assert codes == ["GW511", "GW502"]
    (_, consequence) = judge([CALL], [begin(), loss(1.0, math.nan)])
    assert consequence.hints == ("this follows from GW511: mend that first",)
