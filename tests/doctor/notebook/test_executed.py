"""``%%gradwright`` in a real notebook: one kernel, one cell after the other, and what each of them shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from torch.autograd import Function

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

# The notebook binds `square = Square.apply` before anything watches: up to torch 2.13 that is seen all the same.
IN_PYTHON = hasattr(Function.__dict__["apply"], "__func__")
in_python = pytest.mark.skipif(not IN_PYTHON, reason="this torch has Function.apply in C")
in_c = pytest.mark.skipif(IN_PYTHON, reason="this torch has Function.apply in Python")

FUNCTION = '''class Square(torch.autograd.Function):
    """<script>alert("a cell's own text")</script>"""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return x * grad_output  # <script>alert("half of it")</script>

square = Square.apply  # bound before anything watches

def rows(x):
    total = 0.0
    for i in range(x.shape[0]):
        total = total + x[i].sum()
    return total
'''
WORK = """torch.manual_seed(3)
x = torch.randn(4, 5, requires_grad=True)
def largest(x):
    found = torch.zeros(x.shape[0])
    for i in range(x.shape[0]):
        found[i] = x[i].max()
    return found
for _ in range(2):
    (square(x).sum() + rows(x) + largest(x).sum()).backward()
drawn = torch.rand(2)
drawn.shape
"""
UNTOUCHED = """import builtins, sys
from torch.autograd import Function
code = getattr(getattr(square, "__func__", None), "__code__", None)  # none where torch has it in C
print(Function.__dict__["apply"].__get__(None, square.__self__) == square,
      code is None or code.co_filename.endswith('function.py'),
      torch.autograd.backward.__module__, get_ipython().ast_transformers, sys.getprofile(),
      rows.__code__.co_names, largest.__code__.co_names)
"""
CELLS = {
    "load": "%load_ext gradwright\nimport torch",
    "function": FUNCTION,
    "plain": WORK,
    "plain after": "plain = drawn.tolist(), torch.rand(2).tolist(), x.grad.tolist()",
    "watched": "%%gradwright report\n" + WORK,
    "watched after": "print(plain == (drawn.tolist(), torch.rand(2).tolist(), x.grad.tolist()))",
    "untouched": UNTOUCHED,
    "kept": "print(type(report).__name__, [finding.code for finding in report.findings], report.script.exception)",
    "sources": "print([source.path for source in report.sources], report.source('In[2]').text[-60:])",
    "died": "%%gradwright --no-fix\ny = square(x)\nz = y.exp()\nz.backward()\n",
    "untouched after": UNTOUCHED,
    "explained": "y.backward()",
    "misspelt": "%%gradwright --nonsense\nnever = 1",
    "not run": "print('never' in dir())",
    "asynchronous": "%%gradwright --no-fix\nimport asyncio\nawait asyncio.sleep(0)\nx.sum().backward()\n'late'",
    "interrupted": "%%gradwright cut --no-fix\nx.sum().backward()\nraise KeyboardInterrupt",
    "after Ctrl-C": "print(cut.script.gradients, cut.findings)",
    "untouched at last": UNTOUCHED,
    "captured": "%%capture held\n%%gradwright inner --no-fix\nx.sum().backward()",
    "held": "print(len(held.outputs), inner.script.gradients)",
    "not even Python": "%%gradwright --no-fix\nx = = 1",
    "by its name": "get_ipython().run_cell_magic('gradwright', 'named --select GW3 --no-fix', 'square(x)')",
    "under that name": "print(named.subjects[0].name, named.ok)",
    "unload": "%unload_ext gradwright",
    "unloaded": "%%gradwright\nnever = 1",
    "errors": "y.backward()",
}
RAISING = {"died", "explained", "misspelt", "interrupted", "not even Python", "unloaded", "errors"}


class Outputs:
    """What one cell showed, by kind."""

    def __init__(self, outputs: list[Any]) -> None:
        self.outputs = outputs

    def stream(self, name: str) -> str:
        text = "".join(one["text"] for one in self.outputs if one.get("name") == name)
        return re.sub(r"\x1b\[[0-9;]*m", "", text)

    @property
    def shown(self) -> list[dict[str, str]]:
        return [one["data"] for one in self.outputs if one["output_type"] == "display_data"]

    @property
    def value(self) -> str | None:
        results = [one["data"]["text/plain"] for one in self.outputs if one["output_type"] == "execute_result"]
        return results[-1] if results else None

    @property
    def error(self) -> str | None:
        errors = [one for one in self.outputs if one["output_type"] == "error"]
        return errors[-1]["ename"] if errors else None


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Outputs]]:
    folder: Path = tmp_path_factory.mktemp("notebook")
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS.values()]
    for cell, name in zip(cells, CELLS, strict=True):
        if name in RAISING:
            cell.metadata["tags"] = ["raises-exception"]
    notebook = nbformat.v4.new_notebook(cells=cells)
    client = nbclient.NotebookClient(
        notebook, timeout=240, startup_timeout=180, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    yield {name: Outputs(cell["outputs"]) for name, cell in zip(CELLS, notebook.cells, strict=True)}


@in_python
def test_the_report_is_shown_below_the_cells_own_value(executed: dict[str, Outputs]) -> None:
    cell = executed["watched"]
    assert cell.value == "torch.Size([2])" and cell.error is None
    (shown,) = cell.shown
    assert cell.outputs[-1]["output_type"] == "display_data"
    assert "GW101" in shown["text/html"] and "In[2]:12" in shown["text/html"]
    assert re.search(r"Square +WRONG in x: half of what it is", shown["text/plain"])
    assert "return x * grad_output  # <script>" in shown["text/plain"]
    assert "2 * x * grad_output" in shown["text/plain"] or "2 * (x * grad_output)" in shown["text/plain"]
    assert "1 error" in shown["text/plain"] or "1 finding" in shown["text/plain"]


@in_c
def test_a_function_that_an_earlier_cell_bound_is_named_as_not_examined(executed: dict[str, Outputs]) -> None:
    (shown,) = executed["watched"].shown
    words = " ".join(shown["text/plain"].split())
    assert "calls of Square through a name that an earlier cell gave to its apply" in words
    assert "call Square.apply(...) in the cell" in words


def test_no_script_and_no_made_up_file_name_gets_into_the_page(executed: dict[str, Outputs]) -> None:
    for cell in executed.values():
        for shown in cell.shown:
            page = shown["text/html"]
            assert "<script" not in page.lower() and ("GW101" not in page or "&lt;script&gt;" in page)
            assert "ipykernel_" not in shown["text/html"] + shown["text/plain"]
            assert "gradwright fix" not in shown["text/plain"]  # there is no file that it could write


def test_watching_changes_no_number_and_leaves_nothing_on(executed: dict[str, Outputs]) -> None:
    assert executed["watched after"].stream("stdout") == "True\n"
    for name in ("untouched", "untouched after", "untouched at last"):
        said = executed[name].stream("stdout")
        assert said.startswith("True True torch.autograd [] None ") and "gradwright" not in said


@in_python
def test_the_report_is_kept_under_its_name(executed: dict[str, Outputs]) -> None:
    said = executed["kept"].stream("stdout")
    assert said.startswith("ShownReport ['GW101'") and said.endswith("None\n")


def test_a_cell_is_read_with_the_imports_of_the_others(executed: dict[str, Outputs]) -> None:
    said = executed["sources"].stream("stdout")
    assert said.startswith("['In[2]', 'In[5]']") and said.endswith("# imported in another cell:\nimport torch\n\n")


def test_a_cell_that_dies_is_shown_as_ever_and_explained_once(executed: dict[str, Outputs]) -> None:
    cell = executed["died"]
    assert cell.error == "RuntimeError"
    assert [one["output_type"] for one in cell.outputs] == ["error", "display_data"]
    assert "GW611 error  In[10]:4" in cell.shown[0]["text/plain"] and cell.stream("stderr") == ""


def test_errors_of_other_cells_are_explained_until_it_is_unloaded(executed: dict[str, Outputs]) -> None:
    assert "GW611 error  In[12]:1:1" in executed["explained"].stream("stderr")
    assert executed["errors"].error == "RuntimeError" and executed["errors"].stream("stderr") == ""
    assert executed["unloaded"].error == "UsageError" or "not found" in executed["unloaded"].stream("stderr")


def test_words_that_it_does_not_know_stop_the_cell(executed: dict[str, Outputs]) -> None:
    said = executed["misspelt"].stream("stderr")
    assert "UsageError: %%gradwright: unrecognized arguments: --nonsense" in said
    assert executed["not run"].stream("stdout") == "False\n"


def test_a_cell_may_await(executed: dict[str, Outputs]) -> None:
    cell = executed["asynchronous"]
    assert cell.value == "'late'" and "nothing wrong was found" in cell.shown[0]["text/plain"]


def test_ctrl_c_ends_the_cell_and_what_was_seen_is_told(executed: dict[str, Outputs]) -> None:
    cell = executed["interrupted"]
    assert cell.error == "KeyboardInterrupt" and len(cell.shown) == 1
    assert executed["after Ctrl-C"].stream("stdout") == "1 ()\n"


def test_inside_another_magic(executed: dict[str, Outputs]) -> None:
    assert executed["captured"].outputs == []
    assert executed["held"].stream("stdout") == "1 1\n"


@in_python
def test_by_its_name_and_only_what_was_selected(executed: dict[str, Outputs]) -> None:
    assert "GW101" not in executed["by its name"].shown[0]["text/plain"]
    assert executed["under that name"].stream("stdout") == "Square True\n"


def test_a_cell_that_is_no_python_is_told_of_by_python_alone(executed: dict[str, Outputs]) -> None:
    cell = executed["not even Python"]
    assert cell.error == "SyntaxError" and cell.shown == []
