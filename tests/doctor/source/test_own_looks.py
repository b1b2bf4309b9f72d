"""A script's own looks for NaN, as the text shows them: what a branch implies, and that nobody can tell the hook."""

import ast
import math
import textwrap
import traceback

import pytest

from gradwright.doctor.source.files import parse
from gradwright.doctor.source.own_looks import with_looks

IMPORTS = "import math\nimport torch\nimport numpy as np\nfrom torch import isnan\n"


def hooks(text: str) -> list[str]:
    """The calls that were put in, as text."""
    file = parse((IMPORTS + textwrap.dedent(text)).encode(), "/tmp/train.py")
    before = ast.dump(file.tree, include_attributes=True)
    tree = with_looks(file, "hook").tree
    assert ast.dump(file.tree, include_attributes=True) == before
    return [
        ast.unparse(node).removeprefix("hook.found")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "hook.found"
    ]


@pytest.mark.parametrize(
    ("test", "value"),
    [
        ("torch.isnan(loss)", "loss"),
        ("isnan(loss).any()", "loss"),
        ("loss.isnan().any().item()", "loss"),
        ("not torch.isfinite(loss)", "loss"),
        ("not torch.isfinite(loss).all()", "loss"),
        ("not torch.all(torch.isfinite(loss))", "loss"),
        ("math.isnan(loss.item())", "loss"),
        ("math.isnan(float(loss))", "loss"),
        ("not np.isfinite(loss.detach().cpu().numpy())", "loss"),
        ("torch.isnan(loss) or torch.isinf(loss)", "loss"),
        ("torch.isnan(loss) | torch.isinf(other)", "loss"),
        ("step > 3 and torch.isnan(loss)", "loss"),
        ("not (torch.isfinite(loss) and torch.isfinite(other))", "loss"),
        ("not (torch.isfinite(loss) or quiet)", "loss"),
        ("bool(torch.isnan(loss))", "loss"),
        ("torch.isnan(losses['all'])", "losses"),
        ("torch.isnan(out.loss)", "out"),
        ("any(torch.isnan(one) for one in losses)", "None"),
        ("torch.isnan(torch.stack(losses)).any()", "losses"),
    ],
)
def test_a_branch_that_is_taken_for_nan_alone_has_the_hook(test: str, value: str) -> None:
    assert hooks(f"loss.backward()\nfor step in x:\n    if {test}:\n        break\n") == [f"('break', True, {value})"]


@pytest.mark.parametrize(
    "test",
    [
        "torch.isfinite(loss)",
        "not torch.isnan(loss)",
        "torch.isnan(loss) or step > 3",
        "torch.isfinite(loss) or torch.isnan(loss)",
        "not (torch.isfinite(loss) and step < 3)",
        "any(torch.isfinite(one) for one in losses)",
        "not any(torch.isfinite(one) for one in losses)",
        "check_isnan(loss)",
        "count(torch.isnan(loss)) < 3",
        "bad",
        "is_bad(loss)",
    ],
)
def test_a_branch_that_says_nothing_of_the_kind_has_none(test: str) -> None:
    assert hooks(f"loss.backward()\nfor step in x:\n    if {test}:\n        break\n") == []


IS_BAD = "def is_bad(value):\n    'Says so.'\n    return torch.isnan(value).any()\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("bad = torch.isnan(loss)\nif bad: raise E", ["('raise', False, loss)"]),
        ("fine = math.isfinite(loss)\nif not fine: raise E", ["('raise', False, loss)"]),
        ("bad = torch.isnan(loss)\nbad = False\nif bad: raise E", []),
        ("bad = torch.isnan(loss)\ndel loss\nif bad: raise E", []),
        ("bad = torch.isnan(loss)\ndef f(bad):\n    if bad: raise E", []),
        ("bad = bad or torch.isnan(loss)\nif bad: raise E", []),
        (IS_BAD + "if is_bad(loss.detach()): raise E", ["('raise', False, loss)"]),
        (IS_BAD + "if not is_bad(loss): raise E", []),
        (IS_BAD + "if is_bad(): raise E", []),
        ("def is_bad(x):\n    x = x + 1\n    log(x)\n    return torch.isnan(x)\nif is_bad(loss): raise E", []),
        ("def is_bad(x):\n    return is_bad(x) or isnan(x)\nif is_bad(loss): raise E", []),
    ],
)
def test_a_look_may_have_a_name_or_a_function_of_its_own(text: str, found: list[str]) -> None:
    assert hooks(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("if isnan(loss): raise ValueError", "('raise', False, loss)"),
        ("import sys\nif isnan(loss):\n    print(loss)\n    sys.exit(1)", "('exit', False, loss)"),
        ("def f(loss):\n    if isnan(loss):\n        return\n    loss.backward()", "('return', True, loss)"),
        ("for x in y:\n    if isnan(loss): continue\n    loss.backward()", "('continue', True, loss)"),
        ("if torch.isfinite(loss):\n    loss.backward()", "('skip', True, loss)"),
        ("if torch.isfinite(loss):\n    loss.backward()\nelse:\n    n += 1", "('skip', True, loss)"),
        ("if first:\n    pass\nelif isnan(loss):\n    raise SystemExit", "('raise', False, loss)"),
        ("match x:\n    case 1:\n        if isnan(loss): raise ValueError", "('raise', False, loss)"),
        ("class T:\n    def step(self):\n        if isnan(self.loss): raise ValueError", "('raise', False, self)"),
    ],
)
def test_what_the_branch_does_is_told(text: str, found: str) -> None:
    assert hooks(text) == [found]


@pytest.mark.parametrize(
    "text",
    [
        "if isnan(loss): loss = 0",
        "if isnan(loss): print('!')",
        "@numba.njit\ndef f(v):\n    if math.isnan(v): return 0\n    return v",
        "class F(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        if isnan(x): raise E",
        "y = x if isnan(x) else z",
    ],
)
def test_what_mends_the_value_or_is_compiled_by_others_is_left_alone(text: str) -> None:
    assert hooks(text) == []


PROGRAM = """
def f(values):
    seen = []
    for value in values:
        if not math.isfinite(value):
            if value < 0:
                raise ValueError(value)
            continue
        else:
            seen.append(value)
    return seen, locals()

def g(x):
    if x: y = 1
    elif math.isnan(y): return 2
    return 3

result = [f([1.0, math.inf, 2.0])]
for call in (lambda: f([-math.inf]), lambda: g(0)):
    try:
        call()
    except Exception as error:
        result.append(traceback.format_exc())
"""


def test_a_program_does_what_it_did_and_its_tracebacks_are_the_same() -> None:
    class Hook:
        told: list = []  # noqa: RUF012 - of this test alone

        def found(self, *what: object) -> None:
            self.told.append(what)

    file = parse(PROGRAM.encode(), "/tmp/program.py")
    results = []
    for tree in (file.tree, with_looks(file, "hook").tree):
        names = {"math": math, "traceback": traceback, "hook": Hook()}
        exec(compile(tree, file.path, "exec"), names)  # the text above
        results.append(names["result"])
    assert results[0] == results[1]
    assert [what[:2] for what in Hook.told] == [("continue", False)] * 2


def test_a_file_that_never_looks_is_the_same_object() -> None:
    file = parse(b"loss.backward()\n", "/tmp/train.py")
    assert with_looks(file, "hook") is file
