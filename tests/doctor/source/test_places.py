"""Files by the names that people and code know them by, and where things are defined."""

import linecache
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gradwright.doctor.session.place import Location
from gradwright.doctor.source import places
from gradwright.doctor.source.places import definition, name_in_code, relative


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the script was started; ``elsewhere`` lies beside it."""
    work = tmp_path.resolve() / "work"
    for folder in ("work/package", "elsewhere/inner"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("work/train.py", "elsewhere/train.py"):
        (tmp_path / file).write_text("")
    monkeypatch.setattr(places, "home", lambda: str(work) + os.sep)
    monkeypatch.setattr(places, "_given", {})
    return work


def test_files_are_named_from_where_the_script_was_started(here: Path) -> None:
    assert relative(str(here / "train.py")) == "train.py"
    assert relative(str(here.parent / "elsewhere" / "train.py")) == str(here.parent / "elsewhere" / "train.py")
    assert relative("<string>") == name_in_code("<string>") == "<string>"
    assert name_in_code("never/seen.py") == str(here / "never" / "seen.py")


def test_a_link_is_named_itself_and_its_code_is_found(here: Path) -> None:
    (here / "link.py").symlink_to("../elsewhere/train.py")
    (here / "folder").symlink_to("../elsewhere")
    for name in ("link.py", "folder/train.py"):
        assert relative(str(here / name)) == name
        assert name_in_code(name) == str(here / name)


@pytest.mark.parametrize("written", ["work/../work/train.py", "other/train.py"])
def test_code_is_found_under_the_name_that_it_has(here: Path, written: str) -> None:
    (here.parent / "other").symlink_to("work")
    path = f"{here.parent}/{written}"
    assert relative(path) == "train.py"
    assert name_in_code("train.py") == path


def test_a_folder_above_a_link_is_not_the_folder_above_where_it_leads(here: Path) -> None:
    (here / "into").symlink_to("../elsewhere/inner")
    real = str(here.parent / "elsewhere" / "train.py")
    assert relative(f"{here}/into/../train.py") == real != str(here / "train.py")


CLASSES = """import torch
class Other:
    class Sqr:
        def forward(self): ...
@str.format if False else (lambda cls: cls)
class Sqr(torch.autograd.Function):
    scale = 2
    @staticmethod
    def forward(ctx, x):
        return x
    class Inner:
        @property
        def size(self): ...
        def forward(self): ...
"""


@pytest.fixture
def classes(monkeypatch: pytest.MonkeyPatch) -> dict:
    """Classes of a text that is in no file, as those of a notebook's cells."""
    name = "<ipython-input-1-places>"
    monkeypatch.setitem(linecache.cache, name, (len(CLASSES), None, CLASSES.splitlines(keepends=True), name))
    names: dict = {"__name__": "__main__"}
    exec(compile(CLASSES, name, "exec"), names)
    return names


def test_a_class_of_a_cell_stands_at_its_class_statement(classes: dict) -> None:
    name = "<ipython-input-1-places>"
    assert definition(classes["Sqr"]) == Location(name, 6, 1, 6, 36)
    assert definition(classes["Other"].Sqr) == Location(name, 3, 5, 3, 15)
    assert definition(classes["Sqr"].Inner) == Location(name, 11, 5, 11, 17)


def test_a_class_whose_text_is_gone_stands_where_its_forward_was(classes: dict) -> None:
    linecache.cache.pop("<ipython-input-1-places>")
    assert definition(classes["Sqr"]) == Location("<ipython-input-1-places>", 8)


FUNCTION = """import torch
class Squares(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        rows, cols = x.shape
        out = torch.empty_like(x)
        for row in range(rows):
            for col in range(cols):
                out[row, col] = x[row, col] ** 2
        return out
    @staticmethod
    def backward(ctx, g):
        return 2 * ctx.saved_tensors[0] * g
weight = torch.ones(8, 8, requires_grad=True)
for step in range(2):
    weight.grad = None
    Squares.apply(weight * 3).sum().backward()
"""


def test_a_script_behind_a_link_is_mended_under_the_name_of_the_link(run: Callable, tmp_path: Path) -> None:
    for folder in ("real", "work"):
        (tmp_path / folder).mkdir()
    (tmp_path / "real" / "train.py").write_text(FUNCTION)
    (tmp_path / "work" / "link.py").symlink_to("../real/train.py")
    report = run(tmp_path / "work" / "link.py", cwd=tmp_path / "work", select=("GW301",)).report
    (finding,) = report.findings
    assert finding.location.path == "link.py"
    assert finding.fix is not None and finding.fix.proof.verdict == "proved"
