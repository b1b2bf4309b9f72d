"""The session's JSON: what is written is what is read, and what is no session is named as such."""

import dataclasses
import itertools
import json
import math

import pytest

from gradwright.doctor.session.codec import FACT_KINDS, encode, from_json, to_json
from gradwright.doctor.session.facts import GradientVerdict, LossValues
from gradwright.doctor.session.model import Candidate, Finding, Fix, NotExamined, Proof, Report, Script, ScriptDeath
from gradwright.doctor.session.place import Location
from gradwright.errors import SessionError

AT = Location("train.py", 3, 5, 3, 9)
FULL = Report(
    script=Script(argv=("train.py", "--lr", "é\u2028"), exit_code=1, exception=ScriptDeath("E", "m", "t", AT)),
    facts=(
        GradientVerdict(id="v", subject="s", specimen="p", input_index=0, input_name="x", verdict="wrong", at=(1, 2),
                        factor=0.5, error=math.inf),
        LossValues(id="l", subject="s", calls=2, first=math.nan, last=-math.inf, lowest=-1.0, history=(1.0, math.nan)),
    ),
    findings=(
        Finding("GW101", "n", "gradient", "error", "s", AT, "m", "w", ("h",), ("v",), (Candidate("r", "d", "c"),),
                Fix("d", Proof("verified", ("on",), 0.0, 1e-6, 12, 1.0, 0.1))),
    ),
    not_examined=(NotExamined("a", "b"),),
)  # fmt: skip


def test_what_is_written_is_read_again() -> None:
    assert to_json(from_json(to_json(FULL))) == to_json(FULL)
    assert from_json(to_json(Report())) == Report()


def test_the_json_is_strict_json_with_no_nan_in_it() -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    json.loads(to_json(FULL), parse_constant=refuse)


def test_every_fact_names_its_kind() -> None:
    assert {encode(fact)["kind"] for fact in FULL.facts} == {"GradientVerdict", "LossValues"}
    assert "Fact" not in FACT_KINDS and len(FACT_KINDS) > 10


@pytest.mark.parametrize(
    "text",
    ["", "{", to_json(FULL)[:-20], "[]", "null", '{"schema_version": 99}', "[" * 100_000,
     json.dumps({"schema_version": 1, "facts": [{"kind": "Nonsense"}]}),
     json.dumps({"schema_version": 1, "facts": [{"kind": "GradientVerdict"}]}),
     json.dumps({"schema_version": 1, "findings": 3}),
     json.dumps({"schema_version": 1, "script": {"seconds": "long"}}),
     json.dumps({"schema_version": 1, "script": {"exit_code": True}})],
    ids=itertools.count(),
)  # fmt: skip
def test_what_is_no_session_is_refused_with_a_word(text: str) -> None:
    with pytest.raises(SessionError):
        from_json(text)


def test_a_report_is_ok_if_it_holds_information_only() -> None:
    (finding,) = FULL.findings
    assert not FULL.ok
    assert dataclasses.replace(FULL, findings=(dataclasses.replace(finding, severity="info"),)).ok


def test_text_that_is_no_utf8_survives() -> None:
    report = Report(not_examined=(NotExamined("caf\udce9.py", "why"),))
    to_json(report).encode("utf-8")
    assert from_json(to_json(report)) == report
