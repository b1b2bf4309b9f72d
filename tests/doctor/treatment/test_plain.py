"""A Function that nobody needs is left alone where another file, or a graver finding, has a say in it."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from gradwright.doctor.prove.timing import Timing
from gradwright.doctor.session.model import Finding, Source
from gradwright.doctor.session.place import Location
from gradwright.doctor.treatment import plain
from gradwright.doctor.treatment.cases import Case
from gradwright.doctor.treatment.trials import Trials, Tried
from gradwright.ground import clock

TEXT = """import torch


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


def loss(x):
    return Square.apply(x).sum()
"""


@pytest.fixture
def treated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``treated(others, graver)``: what becomes of the finding beside other files and other findings."""

    def treat(others: dict[str, str], graver: tuple[Finding, ...] = (), path: str = "net.py") -> Tried:
        monkeypatch.setattr(plain, "home", lambda: str(tmp_path) + "/")
        monkeypatch.setattr(Timing, "no_gain", lambda timing: "")  # what it gains is not asked here
        for name, text in {"net.py": TEXT, **others}.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        names: dict = {}
        exec(TEXT, names)
        finding = Finding("GW303", "function-not-needed", "speed", "info", "Square", Location(path, 4), "", "")
        use: Any = SimpleNamespace(subject=SimpleNamespace(origin="script", id="s"), function=names["Square"])
        fact: Any = SimpleNamespace(subject="s")
        patients: Any = SimpleNamespace(
            functions={"s": use}, specimens=lambda _: [((torch.randn(6, 5),), (True,))], callables={}
        )
        report: Any = SimpleNamespace(findings=(finding, *(replace(one, location=finding.location) for one in graver)))
        case = Case("plain_forward", finding, (fact,), Source(path, "", TEXT))
        return plain.plain_function(case, report, patients, Trials(clock.now() + 20.0))

    return treat


def why(tried: Tried) -> str:
    assert tried.fix is None
    return tried.candidates[-1].counterexample or ""


def test_it_becomes_a_plain_function_where_nobody_else_knows_it(treated) -> None:
    other = Finding("GW305", "", "speed", "info", "Square", Location("", 1), "", "")
    tried = treated({"other.py": "class Square: pass\n", "data.txt": "net Square"}, (other,))
    assert tried.fix is not None and "+def square(x):" in tried.fix.diff


def test_another_file_that_speaks_of_it_keeps_it(treated) -> None:
    assert "train.py may use Square too" in why(treated({"train.py": "from net import Square\n"}))


def test_a_notebook_that_speaks_of_it_keeps_it(treated) -> None:
    assert "sub/tries.ipynb may use" in why(treated({"sub/tries.ipynb": '{"source": ["from net import *", "Square"]}'}))


def test_another_cell_of_its_notebook_may_use_it(treated) -> None:
    assert "another cell may use Square too" in why(treated({}, path="<cell 3>"))


def test_a_graver_finding_about_it_comes_first(treated) -> None:
    graver = Finding("GW205", "", "contract", "error", "Square", Location("", 1), "", "")
    assert "GW205 comes first" in why(treated({}, (graver,)))


def test_among_too_many_files_nobody_knows(treated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "MOST_FILES", 2)
    assert "was not looked at" in why(treated({"a.py": "", "b.py": ""}))
