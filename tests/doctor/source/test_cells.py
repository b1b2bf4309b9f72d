"""Cells of a notebook as files: their names in reports, and their texts with the imports of other cells."""

from __future__ import annotations

import linecache
import math
import os
from types import ModuleType

from gradwright.doctor.session.facts import LoopRun
from gradwright.doctor.session.model import Finding, Report, Source, Subject
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.cell_texts import kept_as, with_imports
from gradwright.doctor.source.cells import cell_names, renamed, running_shell
from gradwright.doctor.source.files import parse


def test_outside_of_ipython_there_are_no_cells() -> None:
    assert running_shell() is None and cell_names(None) == {}


def test_cells_are_named_wherever_their_files_stand() -> None:
    at = Location("/tmp/ipykernel_7/12.py", 3, 1, 3, 9)
    others = Source("/tmp/ipykernel_7/13.py", "", "unused"), Source("a.py", "", "")
    loop, run = f"loop:f@{at}", f"loop loop:f@{at}"
    report = Report(
        sources=(Source(at.path, "", f"# {at.path}\n"), *others),
        subjects=(Subject(loop, "loop", "f", at),),
        facts=(LoopRun(id=run, subject=loop, entries=1, seconds=0.5, share_of_step=0.5),),
        findings=(Finding("GW301", "n", "speed", "warning", "f", at, f"slow at {at}", "", (f"see {at}",), (run,)),),
    )
    told = renamed(report, {at.path: "In[4]", "/tmp/ipykernel_7/13.py": "In[5]"})
    assert [source.path for source in told.sources] == ["In[4]", "a.py"]
    assert told.sources[0].text == f"# {at.path}\n"  # what the user wrote stays what it is
    finding = told.findings[0]
    assert (str(finding.location), finding.message, finding.hints) == ("In[4]:3", "slow at In[4]:3", ("see In[4]:3",))
    assert finding.evidence == (told.facts[0].id,) and told.facts[0].subject == told.subjects[0].id
    assert renamed(report, {}) == report


def test_a_cell_gets_the_imports_of_modules_that_it_uses_and_nothing_else() -> None:

    namespace = {"m": math, "os": os, "p": os.path, "x": 3, "mine": math, "unused": math, "gone": ModuleType("gone")}
    file = parse(b"import mine\ny = m.sin(x) + os.getpid() + p.sep + gone + mine", "<ipython-input-1-0>")
    made = with_imports(file, namespace)
    assert made.text.splitlines()[1:] == [
        "y = m.sin(x) + os.getpid() + p.sep + gone + mine",
        "# imported in another cell:",
        "import math as m",
        "import os",
        f"import {os.path.__name__} as p",
    ]
    assert made.path == file.path and with_imports(made, namespace) == made


def test_while_texts_are_kept_they_are_found_under_the_names_of_their_files() -> None:
    linecache.cache["<ipython-input-1-0>"] = (2, None, ["x\n"], "<ipython-input-1-0>")
    one, other = parse(b"x\ny\n", "<ipython-input-1-0>"), parse(b"z\n", "<ipython-input-2-0>")
    with kept_as([one, other]):
        assert linecache.getlines(one.path) == ["x\n", "y\n"] and linecache.getline(other.path, 1) == "z\n"
    assert linecache.cache.pop(one.path)[2] == ["x\n"] and other.path not in linecache.cache
