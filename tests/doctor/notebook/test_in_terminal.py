"""``%%gradwright`` in a terminal's IPython: one shell in a process of its own, which it takes over much of."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("IPython")

FUNCTION = """class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        out = torch.empty_like(x)
        for row in range(len(x)):
            for col in range(x.shape[1]):
                out[row, col] = g[row, col] * 2 * x[row, col]
        return out
"""
PROGRAM = (
    f"FUNCTION = {FUNCTION!r}\n"
    """
import builtins, sys, warnings
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
def run(text):
    print("---")
    return shell.run_cell(text, store_history=True)
def told(name):
    return [f"{one.what}: {one.why}" for one in shell.user_ns[name].not_examined]

run("%load_ext gradwright")
run("%%gradwright a --no-fix\\nx = [1, 2]")
print(told("a"), "torch" in sys.modules)
run("%%gradwright b --no-fix\\nimport torch\\nt = torch.ones(2, requires_grad=True)\\nt.sum().backward()")
print(shell.user_ns["b"].script.gradients, str(next(iter(shell.user_ns["b"].subjects)).location))
run("def plain(y):\\n    for i in range(len(y)):\\n        y[i] = 2 * y[i]\\n    return y")
run("%%gradwright c --no-fix\\nplain(t.detach().clone())\\nfor i in range(len(x)):\\n    x[i] = x[i] + 1\\nx")
print([(str(one.location), one.kind) for one in shell.user_ns["c"].subjects if one.kind == "loop"])
class Other:
    def visit(self, node):
        return node
shell.ast_transformers.append(Other())
run("%%gradwright d --no-fix\\nfor i in range(len(x)):\\n    x[i] = x[i] + 1")
print(told("d"), shell.user_ns["x"])
shell.ast_transformers.clear()
import gradwright.doctor.notebook.watched as watched
real, watched.Journal = watched.Journal, lambda path: 1 / 0
run("%%gradwright e\\n'it ran'")
watched.Journal = real
run("import gradwright as gw\\n" + FUNCTION)
run("report = gw.diagnose(Square, torch.randn(12, 20))")
report = shell.user_ns["report"]
print([(one.code, str(one.location), one.fix is not None) for one in report.findings], [s.path for s in report.sources])
run("%%gradwright f\\n%unload_ext gradwright")
transforms = [getattr(one, "__name__", "") for one in shell.input_transformers_cleanup]
print("f" in shell.user_ns, shell.ast_transformers, transforms)
print(shell.events.callbacks["pre_run_cell"] == [], shell.user_ns["plain"].__code__.co_names)
import gc
gc.collect()
print(sorted({type(one).__name__ for one in gc.get_objects()} & {"Watch", "SpecimenStore", "Kept"}))
hooks = [value for name, value in vars(builtins).items() if name.startswith("__gradwright_loops__")]
print(len(hooks), {hook.closed for hook in hooks}, [hook.uses for hook in hooks if hook.uses])
"""
)


def test_cell_by_cell(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", PROGRAM],
        capture_output=True, text=True, timeout=300, cwd=tmp_path,
    )  # fmt: skip
    parts = done.stdout.split("---\n")
    assert done.returncode == 0, done.stderr
    _, _, no_torch, own_import, _, loops, other, failing, _, consulted, unloading = parts
    assert "['gradients: torch was not imported when the cell was over'] False" in no_torch
    assert "nothing wrong was found" in own_import and own_import.endswith("1 In[3]:4\n")
    assert "Out[5]: [2, 3]" in loops and "[('In[4]:2', 'loop'), ('In[5]:3', 'loop')]" in loops
    assert "the loops of In[6]: other AST transformers change the cells of this shell" in other
    assert other.endswith("[3, 4]\n")
    assert "ZeroDivisionError" in failing and "Out[7]: 'it ran'" in failing
    assert consulted == "[('GW301', 'In[8]:13', True)] ['In[8]']\n"
    assert "False [] [" in unloading and "without_line" not in unloading and "True ('range', 'len')" in unloading
    assert unloading.endswith("[]\n3 {True} []\n") and "ResourceWarning" not in done.stderr
