"""A wrong backward is replaced by the one that follows from the forward; what can't be traced is left alone."""

import subprocess
import sys
import textwrap

import pytest
import torch

from gradwright.doctor.rewrite import propose_by_running
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.place import Location

WRONG = """
    @staticmethod
    def backward(ctx, g):
        return g, g, g
"""


def proposals(body, *args, rewrite="mend_gradient"):
    """Of a class with this body; the finding stands at the ``return`` of its backward."""
    text = "import torch\n\n\nclass Layer(torch.autograd.Function):" + body
    names = {}
    exec(text, names)
    line = 1 + max(number for number, line in enumerate(text.splitlines()) if line.strip().startswith("return"))
    at = Location("net.py", line)
    finding = Finding("GW101", "gradient-value-wrong", "gradient", "error", "Layer", at, "", "")
    found, _ = propose_by_running(rewrite, finding, text, names["Layer"], args)
    return found


def mended(body, *args):
    """The new class, and its text."""
    (proposal,) = proposals(body, *args)
    names = {}
    exec(proposal.new_text, names)
    return names["Layer"], proposal.new_text


def gradients(function, *args):
    inputs = [
        arg.detach().clone().requires_grad_(arg.is_floating_point()) if isinstance(arg, torch.Tensor) else arg
        for arg in args
    ]
    outputs = function(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    cotangents = [torch.linspace(-1, 2, output.numel(), dtype=output.dtype).view_as(output) for output in outputs]
    wanted = [value for value in inputs if isinstance(value, torch.Tensor) and value.requires_grad]
    return torch.autograd.grad(outputs, wanted, cotangents)


def vector(*shape):
    return torch.linspace(-1.3, 1.7, torch.Size(shape).numel(), dtype=torch.float64).reshape(shape)


GATE = (
    """
    @staticmethod
    def forward(ctx, x, w):
        gate = torch.sigmoid(x @ w)
        ctx.save_for_backward(gate)  # all that is needed
        return gate * x

    @staticmethod
    def backward(ctx, g):
        (gate,) = ctx.saved_tensors
        return g * gate, None
""",
    lambda x, w: torch.sigmoid(x @ w) * x,
)


def test_the_backward_of_the_forward_takes_its_place_and_the_forward_saves_what_it_needs():
    body, plain = GATE
    layer, text = mended(body, vector(5, 3), vector(3, 3))
    for x, w in ((vector(5, 3), vector(3, 3)), (vector(4, 7), vector(7, 7))):
        for found, expected in zip(gradients(layer.apply, x, w), gradients(plain, x, w), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    assert "ctx.save_for_backward(x, w)  # all that is needed" in text
    assert "def backward(ctx, g):" in text and "grad_output" not in text


def test_a_number_stays_one_and_comes_from_ctx():
    body = """
    @staticmethod
    def forward(context, x, slope):
        context.slope = slope
        return x * torch.sigmoid(slope * x)
""" + WRONG.replace("return g, g, g", "return g, None").replace("ctx", "context")
    layer, text = mended(body, vector(6), 2.5)
    (found,) = gradients(layer.apply, vector(8), 3.5)
    (expected,) = gradients(lambda x, slope: x * torch.sigmoid(slope * x), vector(8), 3.5)
    torch.testing.assert_close(found, expected)
    assert text.count("context.slope = slope") == 1 and "slope = context.slope" in text


def test_two_outputs_keep_the_names_of_their_cotangents():
    body = """
    @staticmethod
    def forward(ctx, x, v):
        ctx.save_for_backward(x, v)
        v = torch.cos(v) - 0.1 * torch.sin(x)
        return x + 0.1 * v, v

    @staticmethod
    def backward(ctx, to_x, to_v):
        return to_x, to_v
"""
    assert proposals(body, vector(4), vector(4)) == (), "v is given another value: saving it is not to be trusted"
    body = body.replace("v = torch.cos(v)", "new = torch.cos(v)").replace("0.1 * v, v", "0.1 * new, new")
    layer, text = mended(body, vector(4), vector(4))

    def plain(x, v):
        new = torch.cos(v) - 0.1 * torch.sin(x)
        return x + 0.1 * new, new

    for found, expected in zip(
        gradients(layer.apply, vector(4), vector(4)), gradients(plain, vector(4), vector(4)), strict=True
    ):
        torch.testing.assert_close(found, expected)
    assert "def backward(ctx, to_x, to_v):" in text


def test_a_context_of_its_own_is_written_again():
    body = """
    @staticmethod
    def forward(x, w):
        return torch.tanh(x @ w)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y, None
"""
    layer, text = mended(body, vector(5, 3), vector(3, 2))
    assert "        x, w = inputs\n        ctx.save_for_backward(x, w)\n\n" in text
    found = gradients(layer.apply, vector(4, 7), vector(7, 2))
    expected = gradients(lambda x, w: torch.tanh(x @ w), vector(4, 7), vector(7, 2))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    assert proposals(body.replace("ctx.save", "ctx.set_materialize_grads(False)\n        ctx.save"), vector(5, 3),
                     vector(3, 2)) == ()  # fmt: skip


def test_a_docstring_stays_and_the_indentation_is_the_files():
    body = textwrap.dedent(GATE[0]).replace("g):\n", 'g):\n    """The vjp."""\n').replace("    ", "\t")
    layer, text = mended("\n" + textwrap.indent(body, "\t"), vector(5, 3), vector(3, 3))
    assert '\t\t"""The vjp."""\n\t\tx, w = ctx.saved_tensors\n' in text
    assert "    " not in text
    assert gradients(layer.apply, vector(5, 3), vector(3, 3))


def test_what_is_saved_already_is_not_saved_again_and_what_is_not_needed_goes():
    body = """
    @staticmethod
    def forward(ctx, x):
        # what the backward needs
        ctx.save_for_backward(x)
        return x.cumsum(0) if {condition} else x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x
"""
    (needed,) = proposals(body.format(condition="x.dim() > 1"), vector(4))
    assert "-        ctx.save" not in needed.diff and "+        ctx.save" not in needed.diff
    layer, text = mended(body.format(condition="x.dim() == 1"), vector(4))
    assert "save_for_backward" not in text and "# what the backward needs" in text
    assert gradients(layer.apply, vector(5))[0].shape == (5,)


FORWARDS_LEFT_ALONE = {
    "a branch on a value": "if x.sum() > 0:\n            return 2 * x\n        return 3 * x",
    "numpy": "return torch.from_numpy(x.numpy() ** 2)",
    "a mark on ctx": "ctx.set_materialize_grads(False)\n        return x * x",
    "an input given another value": "x = x * x\n        return x.sin()",
    "two returns": "if x.dim() > 1:\n            return x.sin()\n        return x.cos()",
    "saved under a condition": "if x.requires_grad:\n            ctx.save_for_backward(x)\n        return x * x",
    "saved in two places": "ctx.save_for_backward(x)\n        ctx.save_for_backward(x)\n        return x * x",
}


@pytest.mark.parametrize("name", FORWARDS_LEFT_ALONE)
def test_what_is_not_understood_is_left_alone(name):
    body = f"""
    @staticmethod
    def forward(ctx, x):
        {FORWARDS_LEFT_ALONE[name]}
{WRONG.replace("g, g, g", "g")}"""
    assert proposals(body, vector(4)) == ()


def test_a_class_whose_jvp_reads_what_is_saved_is_left_alone():
    body = GATE[0] + "\n    @staticmethod\n    def jvp(ctx, x, w):\n        return x\n"
    assert proposals(body, vector(5, 3), vector(3, 3)) == ()


def test_only_wrong_gradients_are_derived_again():
    assert proposals(GATE[0], vector(5, 3), vector(3, 3), rewrite="compile_loop") == ()


SCRIPT = """
import torch


class Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return torch.sigmoid(x @ w)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        through = g * torch.sigmoid(x @ w)
        return through @ w.t(), x.t() @ through


torch.manual_seed(0)
w = torch.randn(6, 3, requires_grad=True)
x = torch.randn(32, 6)
Gate.apply(x, w).pow(2).sum().backward()
"""


def test_the_doctor_offers_it_where_nothing_simpler_mends_the_gradient(run, tmp_path):
    script = tmp_path / "gate.py"
    script.write_text(SCRIPT)
    report = run(script, probe_seconds=80.0).report
    assert not [left for left in report.not_examined if "derived" in left.what]
    (finding,) = report.findings
    assert finding.code == "GW101"
    assert [(one.rewrite, one.counterexample) for one in finding.candidates] == [("derive_backward", None)]
    assert finding.fix is not None
    assert finding.fix.proof.verdict == "verified"
    assert finding.fix.proof.mutants_rejected >= 5
    assert "+        grad_" in finding.fix.diff


COLD = """
import sys
import torch
from gradwright.doctor.rewrite import prepare_to_run, propose_by_running
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.place import Location
from gradwright.ground.forked import in_child
text, names = sys.stdin.read(), {}
exec(text, names)
finding = Finding("GW101", "gradient-value-wrong", "gradient", "error", "Gate", Location("gate.py", 15), "", "")
prepare_to_run()
known = set(sys.modules)
def work():
    found, why = propose_by_running("mend_gradient", finding, text, names["Gate"], (torch.ones(5, 6), torch.ones(6, 3)))
    return len(found), why, len([name for name in set(sys.modules) - known if name.startswith("torch.")]) < 20
print(in_child(work, seconds=60).value)
"""


def test_in_a_process_that_has_traced_nothing_yet_and_where_nothing_may_be_written():
    """Torch imports hundreds of modules with its first symbol, and one of them asks for the temporary directory."""
    text = SCRIPT.partition("torch.manual_seed")[0]
    done = subprocess.run([sys.executable, "-c", COLD], input=text, capture_output=True, text=True, timeout=120)
    assert done.stdout == "(1, '', True)\n", done.stderr


@pytest.mark.parametrize(
    ("forward", "why"),
    [
        ("torch.sigmoid(x @ w) if float(x.sum()) > 0 else x @ w", "depends on the values of a tensor"),
        ("torch.from_numpy(x.detach().numpy() @ w.detach().numpy())", "leaves torch for NumPy"),
    ],
)
def test_why_there_is_none_is_told(run, tmp_path, forward, why):
    script = tmp_path / "gate.py"
    script.write_text(SCRIPT.replace("torch.sigmoid(x @ w)", forward, 1))
    ran = run(script, probe_seconds=80.0)
    (finding,) = [one for one in ran.report.findings if one.code == "GW101"]
    assert finding.fix is None
    told = finding.candidates[-1]
    assert (told.rewrite, told.diff) == ("derive_backward", "") and why in told.counterexample


BRIER = """
import torch


class Brier(torch.autograd.Function):
    @staticmethod
    def forward(ctx, p, y):
        ctx.save_for_backward(p, y)
        return (p - y).pow(2).mean()

    @staticmethod
    def backward(ctx, g):
        p, y = ctx.saved_tensors
        return g * 2 * (p - y) / DIVISOR, None


torch.manual_seed(0)
p = torch.rand(32, 3, requires_grad=True)
y = torch.rand(32, 3)
Brier.apply(p, y).backward()
"""


@pytest.mark.parametrize(
    ("divisor", "rewrite"), [("len(p)", "derive_backward"), ("(3 * p.numel())", "rescale_gradient")]
)
def test_a_number_that_is_a_length_in_disguise_is_not_put_in(run, tmp_path, divisor, rewrite):
    """Three times too large at [32, 3] would be twice at [32, 2], though the script shows one shape alone."""
    script = tmp_path / "brier.py"
    script.write_text(BRIER.replace("DIVISOR", divisor))
    (finding,) = run(script, probe_seconds=80.0).report.findings
    assert finding.code == "GW101" and finding.fix is not None
    assert finding.candidates[-1].rewrite == rewrite
    if rewrite == "derive_backward":
        assert all("is wrong there" in one.counterexample for one in finding.candidates[:-1])
        assert len(finding.candidates) > 1
