"""A chain of arithmetic in a Function becomes one formula, and is the same numbers; what is no formula stays."""

import ast
from dataclasses import replace

import pytest
import torch

from gradwright.doctor.probe import temporaries
from gradwright.doctor.prove import Proved, prove
from gradwright.doctor.rewrite import propose
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.expressions.formulas import TAKEN, read_formula
from gradwright.doctor.source.statements import Origins
from gradwright.ground import clock
from gradwright.kernels.formula.functions import CONSTANTS, FUNCTIONS

HEAD = '"""Of two tensors."""\nimport math\nimport torch\n\n\n# By hand.\n'


def text(expression: str, *before: str, head: str = HEAD) -> str:
    lines = "".join(f"        {line}\n" for line in (*before, f"return {expression}"))
    return f"{head}class SomeGate(torch.autograd.Function):\n    @staticmethod\n    def backward(ctx, x, y):\n{lines}"


class Context:
    """What the backward's ctx holds."""

    beta = 1.5


def inputs(rows: int = 4) -> tuple:
    generator = torch.Generator().manual_seed(rows)
    return Context(), *(torch.randn(rows, 5, generator=generator) for _ in range(2))


FORMULAS = {
    "x * (y + 2 * x * y * (1 - y))": ("x * (y + 2 * x * y * (1 - y))", "x, y"),
    "(x - y) * (x + y) / (1 + x**2)": ("(x - y) * (x + y) / (1 + x ** 2)", "x, y"),
    "torch.exp(-x) * y.sigmoid() * 3": ("exp(-x) * sigmoid(y) * 3", "x, y"),
    "ctx.beta * x * (y > 0) * 2": ("beta * x * (y > 0) * 2", "ctx.beta, x, y"),
    "torch.where(x > 0, x * y, 0.1 * y) + 1": ("where(x > 0, x * y, 0.1 * y) + 1", "x, y"),
    "2 * x * y / x.numel() * x.numel()": ("2 * x * y / numel * numel", "x, y, x.numel()"),
    "(x - x.mean()).square() * y + x": ("square(x - mean) * y + x", "x, x.mean(), y"),
    "math.sqrt(2 / math.pi) * x * y + x - y": ("sqrt_1 * x * y + x - y", "math.sqrt(2 / math.pi), x, y"),
    "torch.tanh(x).pow(2) * y - x.shape[0]": ("tanh(x) ** 2 * y - shape", "x, y, x.shape[0]"),
}


@pytest.fixture
def whatever_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the operations of a few numbers took just now."""
    monkeypatch.setattr(temporaries, "SHARE_OF_A_FORMULA", 0.0)


@pytest.mark.usefixtures("whatever_it_takes")
@pytest.mark.parametrize("expression", FORMULAS)
def test_a_chain_in_a_function_becomes_a_formula_beside_the_class(expression: str, rewritten) -> None:
    formula, given = FORMULAS[expression]
    done = rewritten("temporaries", text(expression), *inputs(), name="backward")
    assert done is not None
    name = "_some_gate_backward"
    assert [line for line in done.lines if line] == [
        "import gradwright as gw",
        f'{name} = gw.elementwise("{formula}")',
        f"return {name}({given})",
    ]
    assert done.agrees(*inputs()) and done.agrees(*inputs(1)) and done.agrees(*inputs(0))


@pytest.mark.usefixtures("whatever_it_takes")
def test_names_that_mean_something_in_a_formula_are_others_there(rewritten) -> None:
    lines = ("mask, exp = x.abs(), y.abs()",)
    done = rewritten("temporaries", text("exp * mask * (x - y) + y", *lines), *inputs(), name="backward")
    assert done is not None and done.lines[-1] == "return _some_gate_backward(exp, mask, x, y)"
    assert 'gw.elementwise("exp_1 * mask_1 * (x - y) + y")' in "".join(done.lines)
    assert done.agrees(*inputs())


def test_every_word_of_a_formula_is_known_to_be_taken() -> None:
    assert set(FUNCTIONS) | set(CONSTANTS) <= TAKEN


LEFT = {
    "three operations": text("x * y * x * y"),
    "a sum over an axis": text("(x * y - x).sum(0)"),
    "two dtypes": text("x * z * (x - y) + y", "z = y.double()"),
    "whole numbers": text("z * z * (z - 1) + z", "z = x.long()"),
    "true and true is no number": text("(x > 0) + (y > 0) + (x > 1) + (y > 1)"),
    "a power of tensors": text("x.abs() ** y * x + y - x"),
    "a name of ours is taken": text("x * (y + 2 * x * y * (1 - y))", head=HEAD + "gw = 2\n\n\n"),
    "no import stands above": text("x * (y + 2 * x * y * (1 - y))", head="def helper():\n    pass\n\n\nimport torch\n"),
    "it takes little of the time": text(
        "x * (y + 2 * x * y * (1 - y))", *["y = torch.linalg.svd(y)[0] @ torch.linalg.svd(y)[0].mT @ y"] * 4
    ),
}


@pytest.mark.parametrize("source", LEFT.values(), ids=list(LEFT))
def test_what_is_no_formula_is_left(source: str, rewritten) -> None:
    assert rewritten("temporaries", source, *inputs(), name="backward") is None


@pytest.mark.parametrize("part", ["f(y)", "torch.softmax(f(y), -1)", "y.add_(1)", "torch.rand(3)", "(z := y)"])
def test_what_is_called_for_its_effects_is_in_no_formula(part: str) -> None:
    node = ast.parse(f"x * (y + 2 * x * {part} * (1 - y))", mode="eval").body
    assert isinstance(node, ast.expr) and read_formula(node, Origins(ast.parse("import torch"))) is None


def test_a_formula_is_proved_and_another_one_is_rejected(tmp_path) -> None:
    source = (
        "import torch\n\n\nclass Swish(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n"
        "        s = torch.sigmoid(x)\n        ctx.save_for_backward(x, s)\n        return x * s\n\n    @staticmethod\n"
        "    def backward(ctx, g):\n        x, s = ctx.saved_tensors\n        return g * (s + x * s * (1 - s))\n"
    )
    names: dict = {}
    exec(compile(source, "swish.py", "exec"), names)
    at = Location("swish.py", 14, 16, 14, 41)
    finding = Finding("GW308", "temporaries-unfused", "speed", "info", "Swish", at, "", "")
    (proposal, *_) = propose("fuse_temporaries", finding, (), source)
    wrong = [text.replace("(1 - s)", "(2 - s)") for text in (proposal.new_text, proposal.added)]
    specimens = [((torch.randn(600, 500),), (True,))]
    found, other = (
        prove(one, names["Swish"], names, specimens, expect="same", deadline=clock.now() + 30.0)
        for one in (proposal, replace(proposal, new_text=wrong[0], added=wrong[1]))
    )
    assert isinstance(found, Proved) and not found.unsafe and found.proof.after_bytes is None
    assert found.proof.mutants_rejected >= 10 and found.proof.exact
    assert isinstance(other, str) and "gradient of x" in other
