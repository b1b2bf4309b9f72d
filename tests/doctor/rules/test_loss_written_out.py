"""GW510: a warning by itself, information where GW511 tells that NaN began in the very function."""

import pytest

from gradwright.doctor.rules.numerics.loss_written_out import judge
from gradwright.doctor.rules.rule import Facts
from gradwright.doctor.session.facts import KnownLoss, NonfiniteBegins
from gradwright.doctor.session.model import Finding, Subject
from gradwright.doctor.session.place import Location

SUBJECT = Subject(id="loss", kind="function", name="my_loss", location=Location("train.py", 5))
KNOWN = KnownLoss(
    id="known", subject="loss", location=Location("train.py", 5, 1, 8), loss="cross_entropy", call="cross_entropy(x)",
    prediction=0, target=1, from_0_to_1=False, wrong_at="its value is nan at predictions of ±100", size=100.0,
    before_seconds=1e-5, after_seconds=1e-5, tried_on="float32[32, 4]",
)  # fmt: skip


def found(*begins_at: Location) -> Finding:
    begins = [
        NonfiniteBegins(
            id=f"begins {at}", subject="call", location=at, operation="log", phase="forward", cause="boundary",
            value="-inf", why="log of 0 is -inf",
        ) for at in begins_at
    ]  # fmt: skip
    (finding,) = judge(SUBJECT, Facts([KNOWN, *begins], SUBJECT))
    return finding


def test_it_is_a_warning_by_itself() -> None:
    assert found().severity == "warning"


@pytest.mark.parametrize("line", [5, 8])
def test_it_is_information_where_nan_began_in_it(line: int) -> None:
    assert found(Location("train.py", line, 13, line, 20)).severity == "info"


@pytest.mark.parametrize("at", [Location("train.py", 9), Location("train.py", 4), Location("other.py", 6)])
def test_nan_that_began_elsewhere_takes_nothing_from_it(at: Location) -> None:
    assert found(at).severity == "warning"
