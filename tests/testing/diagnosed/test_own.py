"""Only the project's own code makes a green session red."""

import pytest

from gradwright.doctor.session.facts import Mutated
from gradwright.doctor.session.model import Finding, Report, Subject
from gradwright.doctor.session.place import Location
from gradwright.testing.diagnosed.own import makes_red

INSTALLED = "/env/lib/python3.11/site-packages/solver/functions.py"


def report(path, origin, severity="error"):
    at = Location(path, 3)
    subject = Subject("function:Solve@a", "function", "Solve", at, origin)
    fact = Mutated(id="m", subject=subject.id, phase="forward", what="input", name="x")
    finding = Finding("GW206", "n", "contract", severity, "Solve", at, "it does", "why", evidence=("m",))
    return Report(subjects=(subject,), facts=(fact,), findings=(finding,))


def test_a_function_of_the_project_does(tmp_path):
    assert makes_red(report("solver/functions.py", "script"), tmp_path)


def test_information_does_not(tmp_path):
    assert not makes_red(report("solver/functions.py", "script", "info"), tmp_path)


def test_a_package_of_somebody_else_s_does_not(tmp_path):
    assert not makes_red(report(INSTALLED, "library"), tmp_path)


@pytest.mark.parametrize("place", ["solver", "src/solver"])
def test_the_project_itself_when_it_is_installed_does(tmp_path, place):
    (tmp_path / place).mkdir(parents=True)
    assert makes_red(report(INSTALLED, "library"), tmp_path)
    assert not makes_red(report(INSTALLED.replace("solver", "other"), "library"), tmp_path)


def test_a_finding_of_nobody_s_does(tmp_path):
    one = report(INSTALLED, "library")
    assert makes_red(Report(findings=one.findings), tmp_path)
