"""`%load_ext gradwright`: against IPython where it is installed, and against what of IPython the extension uses."""

import linecache
import subprocess
import sys
from types import SimpleNamespace

import pytest

import gradwright as gw

CELLS = {
    "vector": "x = torch.ones(3, requires_grad=True)\ny = x.exp()\ny.backward()\n",
    "division": "1 / 0\n",
    "block": "with gw.explain_errors():\n    y.backward()\n",
}


class Shell:
    """IPython's events around the cells that are run, and the files that its compiler makes of them."""

    def __init__(self) -> None:
        self.called = {"pre_run_cell": [], "post_run_cell": []}
        self.events = SimpleNamespace(
            register=lambda event, call: self.called[event].append(call),
            unregister=lambda event, call: self.called[event].remove(call),
        )
        self.compile = SimpleNamespace(_filename_map={})
        self.names = {"torch": __import__("torch"), "gw": gw}

    def run_cell(self, text: str) -> None:
        number = len(self.compile._filename_map) + 1
        name = f"<ipython-input-{number}-{id(self):x}>"
        self.compile._filename_map[name] = number
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        for call in self.called["pre_run_cell"]:
            call(SimpleNamespace(raw_cell=text))
        error = None
        try:
            exec(compile(text, name, "exec"), self.names)
        except Exception as raised:
            error = raised
        for call in self.called["post_run_cell"]:
            call(SimpleNamespace(error_in_exec=error, error_before_exec=None))


@pytest.fixture
def shell():
    shell = Shell()
    gw.load_ipython_extension(shell)
    yield shell
    gw.unload_ipython_extension(shell)


def test_the_error_of_a_cell_is_told_at_its_line(shell: Shell, capsys) -> None:
    shell.run_cell("import math\n")
    shell.run_cell(CELLS["vector"])
    first, line, *rest = capsys.readouterr().err.splitlines()
    assert first == "GW611 error  In[2]:3:1  `y.backward()`: y has shape [3]"
    assert line.endswith("│ y.backward()")
    assert "  more   gradwright explain GW611" in rest


def test_what_no_rule_knows_and_what_went_well_pass_in_silence(shell: Shell, capsys) -> None:
    shell.run_cell(CELLS["division"])
    shell.run_cell("z = 3\n")
    assert capsys.readouterr() == ("", "")


def test_an_error_that_a_block_told_is_not_told_again_but_in_the_next_cell(shell: Shell, capsys) -> None:
    shell.run_cell(CELLS["vector"])
    shell.run_cell(CELLS["block"])
    shell.run_cell("y.backward()\n")
    assert capsys.readouterr().err.count("GW611 error") == 3


def test_loaded_twice_it_tells_once_and_unloaded_nothing(shell: Shell, capsys) -> None:
    gw.load_ipython_extension(shell)
    shell.run_cell(CELLS["vector"])
    assert capsys.readouterr().err.count("GW611 error") == 1
    gw.unload_ipython_extension(shell)
    gw.unload_ipython_extension(shell)
    shell.run_cell(CELLS["vector"])
    assert capsys.readouterr().err == ""
    assert shell.called == {"pre_run_cell": [], "post_run_cell": []}


def test_loading_imports_no_torch() -> None:
    program = (
        "import sys, gradwright as gw\nfrom types import SimpleNamespace as S\n"
        "shell = type('Shell', (), {})()\nshell.events = S(register=lambda *_: None, unregister=lambda *_: None)\n"
        "gw.load_ipython_extension(shell)\ngw.unload_ipython_extension(shell)\nprint('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"


def test_in_ipython_itself() -> None:
    """In a process of its own: an InteractiveShell takes over much of the one that it is in."""
    pytest.importorskip("IPython")
    program = (
        "from IPython.core.interactiveshell import InteractiveShell\nshell = InteractiveShell.instance()\n"
        "run = lambda text: shell.run_cell(text, store_history=True)\n"
        f"run('%load_ext gradwright')\nrun('import torch')\nrun({CELLS['vector']!r})\nrun('1 / 0')\n"
        "run('%unload_ext gradwright')\nrun('y.backward()')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600)
    assert done.stderr.count("GW611 error  In[3]:3:1  `y.backward()`: y has shape [3]") == 1
    assert done.stderr.count("GW611 error") == 1
    assert done.stdout.count(": grad can be implicitly created") == 2 and "ZeroDivisionError" in done.stdout
