import subprocess
import sys

import pytest

from gradwright.doctor.explain import explain, index
from gradwright.doctor.rules import all_rules

TRACEBACK = """\
Traceback (most recent call last):
  File "/home/ada/train.py", line 12, in <module>
    {}["lr"]
KeyError: 'lr'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/home/ada/train.py", line 40, in <module>
    loss.backward()
  File "/venv/lib/python3.12/site-packages/torch/_tensor.py", line 623, in backward
    torch.autograd.backward(
RuntimeError: function MulBackward returned an incorrect number of gradients (expected 2, got 1)
"""


@pytest.mark.parametrize("asked", ["GW613", "gw613", " GW613\n", "backward-through-graph-twice"])
def test_a_code_or_a_name_gives_its_page(asked):
    page = explain(asked)
    assert page.startswith("GW613 backward-through-graph-twice (error)\n")
    for head in ("What it finds", "Why it matters", "When it is fine", "The fix", "References"):
        assert f"\n{head}\n    " in page


def test_a_pasted_message_tells_what_was_recognised():
    page = explain("function MulBackward returned an incorrect number of gradients (expected 2, got 1)")
    assert page.splitlines()[1] == "recognised: Function Mul, expected 2, got 1"


def test_a_whole_traceback_is_read_from_its_end():
    assert explain(TRACEBACK).startswith("GW201 ")


def test_of_two_errors_in_a_traceback_the_last_is_explained():
    first = "RuntimeError: grad can be implicitly created only for scalar outputs\n\n"
    assert explain(first + TRACEBACK).startswith("GW201 ")


def test_a_message_wrapped_by_a_terminal_is_still_recognised():
    wrapped = (
        "RuntimeError: one of the variables needed for gradient\ncomputation has been modified by an\ninplace operation"
    )
    assert explain(wrapped).startswith("GW614 ")


@pytest.mark.parametrize("nonsense", ["", "GW000", "loss is nan", "KeyError: 'lr'", "GW", "\x00" * 5, "(" * 500])
def test_nonsense_is_not_explained(nonsense):
    assert explain(nonsense) is None


def test_every_rule_is_explained_by_its_code_and_listed_in_a_line():
    lines = index().splitlines()
    assert len(lines) == len(all_rules())
    for rule, line in zip(all_rules(), lines, strict=True):
        assert line.startswith(f"{rule.rule.code}  {rule.rule.name} ")
        assert explain(rule.rule.code) == explain(rule.rule.name)


def test_explaining_imports_no_torch():
    code = (
        "import sys; from gradwright.doctor.explain import explain, index; "
        "explain('GW611'), index(); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
