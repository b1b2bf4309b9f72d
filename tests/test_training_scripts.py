"""corpora/training_scripts: each fault can still be planted, and says what it should. No script runs here."""

import warnings
from pathlib import Path

import pytest
from corpora.training_scripts.doctor import Ran, Said
from corpora.training_scripts.judging import judged
from corpora.training_scripts.kept import Kept
from corpora.training_scripts.plant import Plant, clean_scripts, clean_text
from corpora.training_scripts.plants import FIRST, PLANTS, SECOND
from corpora.training_scripts.report import row_of_peer

from gradwright.doctor.rules import all_rules


def _compile(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile(text, "script.py", "exec")


def test_there_are_enough_of_them() -> None:
    assert len(clean_scripts()) >= 25
    assert len(PLANTS) >= 80
    assert len({plant.name for plant in PLANTS}) == len(PLANTS)


@pytest.mark.parametrize("script", clean_scripts())
def test_a_clean_script_compiles(script: str) -> None:
    _compile(clean_text(script))


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_a_plant_applies_once_and_marks_its_lines(plant: Plant) -> None:
    _compile(plant.text())
    assert plant.text() != clean_text(plant.script)
    assert plant.lines()


def test_families_are_split_in_two_halves() -> None:
    assert {plant.family for plant in PLANTS} == FIRST | SECOND
    assert not FIRST & SECOND


def test_every_code_is_a_rule() -> None:
    known = {loaded.rule.code for loaded in all_rules()}
    assert {code for plant in PLANTS for code in plant.codes} <= known


def _said(code: str, line: int, message: str = "", severity: str = "error") -> Said:
    return Said(code, severity, line, line, message, "")


PLANT = Plant(
    "zero_grad missing", "mlp_regression", "a line", (("loss.backward()", "pass"),), ("GW601",), ("pass",), ("why",)
)
LINE = next(iter(PLANT.lines()))


@pytest.mark.parametrize(
    ("said", "found", "loud", "line", "cause"),
    [
        (_said("GW601", LINE, "Why"), True, True, True, True),
        (_said("GW601", LINE), True, True, True, False),
        (_said("GW601", LINE + 1, "why"), True, True, False, False),
        (_said("GW601", LINE, "why", "info"), True, False, True, True),
        (_said("GW602", LINE, "why"), False, False, False, False),
    ],
)
def test_a_verdict_tells_code_line_and_cause_apart(
    said: Said, found: bool, loud: bool, line: bool, cause: bool
) -> None:
    verdict = judged(PLANT, Ran((said,), 0, 0.0))
    assert (verdict.found, verdict.loud, verdict.line, verdict.cause) == (found, loud, line, cause)
    assert verdict.besides == (() if found else ("GW602",))


def test_an_edit_that_does_not_apply_once_is_refused() -> None:
    with pytest.raises(ValueError, match="stands 0 times"):
        Plant("zero_grad missing", "mlp_regression", "none", (("no such line", ""),), ("GW601",), ()).text()


def test_what_was_answered_is_not_asked_again(tmp_path: Path) -> None:
    asked: list[str] = []

    def ask(scripts):
        for name in scripts:
            asked.append(name)
            yield name, {"said": name}
            if name == "b":
                raise KeyboardInterrupt

    scripts = {name: (f"{name}.py", "pass") for name in "abc"}
    with pytest.raises(KeyboardInterrupt):
        Kept(tmp_path / "kept.jsonl").answers("tool", "1", scripts, ask)
    again = Kept(tmp_path / "kept.jsonl")
    assert again.answers("tool", "1", scripts, ask)["a"] == {"said": "a"}
    assert asked == ["a", "b", "c"]
    again.answers("tool", "1", {"a": ("a.py", "another text")}, ask)
    again.answers("tool", "2", {"c": scripts["c"]}, ask)
    assert asked == ["a", "b", "c", "a", "c"]


def test_a_peer_finds_what_it_says_of_the_planted_script_alone() -> None:
    def said(name: str, line: int) -> dict:
        return {"id": name, "severity": "", "lines": [line]}

    clean = {"said": [said("old", LINE)], "failed": "", "seconds": 0.0}
    same = row_of_peer(PLANT, clean, {"said": [said("old", LINE)], "failed": "", "seconds": 0.0})
    assert (same["found"], same["right line"]) == (False, False)
    elsewhere = row_of_peer(PLANT, clean, {"said": [said("new", LINE + 1)], "failed": "", "seconds": 0.0})
    assert (elsewhere["found"], elsewhere["right line"]) == (True, False)
    there = row_of_peer(PLANT, clean, {"said": [said("new", LINE)], "failed": "", "seconds": 0.0})
    assert (there["found"], there["right line"]) == (True, True)
