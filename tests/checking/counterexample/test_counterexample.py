"""Every script runs by itself: it fails while the Function is faulty, and passes with the mended one in its place."""

import inspect
import os
import subprocess
import sys
import textwrap

import pytest
import torch

import gradwright as gw
from gradwright.checking.counterexample import fails

pytestmark = pytest.mark.xdist_group("counterexamples")  # all scripts are made once: by one worker
Function = torch.autograd.Function


def draw(*shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


class ScaledRight(Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x**2 * w

    @staticmethod
    def backward(ctx, cotangent):
        x, w = ctx.saved_tensors
        return 2 * cotangent * x * w, cotangent * x**2


class Scaled(Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x**2 * w

    @staticmethod
    def backward(ctx, cotangent):
        x, w = ctx.saved_tensors
        return cotangent * x * w, cotangent * x**2


class Double(Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, cotangent):
        return 2 * cotangent


class ViewsItsCotangent(Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, cotangent):
        return 2 * cotangent.view(-1).view(cotangent.shape)


class Multiplies(Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent.mul_(2)


class Clamps(Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, cotangent):
        return 2 * cotangent.clamp(-300, 300)


class TooMany(Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, cotangent):
        return 2 * cotangent, 2 * cotangent


class InFloat64(Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, cotangent):
        return 2 * cotangent.float() if cotangent.dtype is torch.float64 else 2 * cotangent.double()


class SqueezesIt(Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, cotangent):
        return (2 * cotangent).squeeze()


class AddedRight(Function):
    @staticmethod
    def forward(ctx, x, bias):
        return x + bias

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent, cotangent.sum(0)


class Added(Function):
    @staticmethod
    def forward(ctx, x, bias):
        return x + bias

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent, cotangent.sum(1)


class ProductRight(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.prod(-1)

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            y = x.detach().requires_grad_()
            return torch.autograd.grad(y.prod(-1), y, cotangent)


class Product(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.prod(-1)

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        return (cotangent * x.prod(-1))[..., None] / x


class CubeRight(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * cotangent


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.slope = 3 * x.detach() ** 2
        return x**3

    @staticmethod
    def backward(ctx, cotangent):
        return ctx.slope * cotangent


class LastOneRight(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        return 2 * x * cotangent


class LastOne(Function):
    kept = None

    @staticmethod
    def forward(ctx, x):
        LastOne.kept = x.detach()
        return x**2

    @staticmethod
    def backward(ctx, cotangent):
        return 2 * LastOne.kept * cotangent


class PairRight(Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, cotangent):
        x, w = ctx.saved_tensors
        return cotangent * w, cotangent * x


class Pair(Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, cotangent):
        x, w = ctx.saved_tensors
        first = cotangent * w if ctx.needs_input_grad[1] else None
        return first, cotangent * x if ctx.needs_input_grad[0] else None


class TwoRight(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.set_materialize_grads(False)
        return x.sin(), x.cos()

    @staticmethod
    def backward(ctx, one, two):
        (x,) = ctx.saved_tensors
        return (0 if one is None else one * x.cos()) - (0 if two is None else two * x.sin())


class Two(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.set_materialize_grads(False)
        return x.sin(), x.cos()

    @staticmethod
    def backward(ctx, one, two):
        (x,) = ctx.saved_tensors
        return (1 if one is None else one) * x.cos() - (1 if two is None else two) * x.sin()


class Parked(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.y = x.exp()
        return ctx.y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, cotangent):
        return ctx.y.detach() * cotangent


class ParkedRight(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, cotangent):
        return ctx.saved_tensors[0] * cotangent


class Rounded(Function):
    @staticmethod
    def forward(ctx, x):
        return torch.round(x)

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent


class RoundedRight(Function):
    @staticmethod
    def forward(ctx, x):
        return torch.round(x)

    @staticmethod
    def backward(ctx, cotangent):
        return torch.zeros_like(cotangent)


class NormRight(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sum(-1) / 3

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        return (cotangent / 3)[..., None].expand(x.shape)


class Norm(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sum(-1) / 3

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        large = (cotangent / 3 * 4096)[..., None].expand(x.shape)
        return (large + 0.37 - 0.37).half().to(x.dtype) / 4096 if x.dtype is not torch.float64 else large / 4096


class VmappedRight(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x**2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, cotangent):
        return 2 * ctx.saved_tensors[0] * cotangent


class Vmapped(Function):
    @staticmethod
    def forward(x):
        return x**2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, cotangent):
        return 2 * ctx.saved_tensors[0] * cotangent

    @staticmethod
    def vmap(info, in_dims, x):
        return (x.sum(in_dims[0], keepdim=True) ** 2).expand(x.shape), in_dims[0]


CASES = [
    pytest.param("GW101", Scaled, ScaledRight, (draw(4, 3), draw(4, 3, seed=1)), id="GW101"),
    pytest.param("GW102", Rounded, RoundedRight, (3 * draw(5),), id="GW102"),
    pytest.param("GW103", Product, ProductRight, (draw(4, 3),), id="GW103"),
    pytest.param("GW104", Norm, NormRight, (draw(4, 3),), id="GW104"),
    pytest.param("GW105", Clamps, Double, (draw(4, 3),), id="GW105"),
    pytest.param("GW106", Cube, CubeRight, (draw(4),), id="GW106"),
    pytest.param("GW107", LastOne, LastOneRight, (draw(4),), id="GW107"),
    pytest.param("GW201", TooMany, Double, (draw(4),), id="GW201"),
    pytest.param("GW202", Multiplies, Double, (draw(4),), id="GW202"),
    pytest.param("GW203", Added, AddedRight, (draw(4, 3), draw(3)), id="GW203 of the contract"),
    pytest.param("GW203", SqueezesIt, Double, (draw(4, 3),), id="GW203 of another shape"),
    pytest.param("GW209", ViewsItsCotangent, Double, (draw(4, 3),), id="GW209"),
    pytest.param("GW210", Pair, PairRight, (draw(4), draw(4, seed=1)), id="GW210"),
    pytest.param("GW211", Two, TwoRight, (draw(4),), id="GW211"),
    pytest.param("GW212", InFloat64, Double, (draw(4),), id="GW212"),
    pytest.param("GW213", Parked, ParkedRight, (draw(4),), id="GW213"),
    pytest.param("GW214", Vmapped, VmappedRight, (draw(4),), id="GW214"),
]

# One process imports torch; each script then runs in a fork of it, as ``python script.py`` would.
RUNNER = """
import os, runpy, sys, traceback
import torch
torch.set_num_threads(1)
for path in sys.stdin.read().split():
    child = os.fork()
    if child == 0:
        code = 0
        try:
            runpy.run_path(path, run_name="__main__")
        except AssertionError as error:
            code = 1
        except BaseException:
            traceback.print_exc()
            code = 2
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True, file=sys.__stdout__)
"""


def source(kind):
    return textwrap.dedent(inspect.getsource(kind)).strip()


def mended(script, faulty, right):
    """The script with the mended class pasted in the faulty one's place, under its name."""
    assert source(faulty) in script
    return script.replace(source(faulty), source(right).replace(right.__name__, faulty.__name__))


@pytest.fixture(scope="module")
def codes(tmp_path_factory):
    """The exit codes of all scripts, faulty and mended, and the scripts."""
    folder, scripts, paths = tmp_path_factory.mktemp("scripts"), {}, []
    for param in CASES:
        code, faulty, right, args = param.values
        report = gw.check(faulty, *args)
        only = next((finding for finding in report.findings if finding.code == code), None)
        scripts[param.id] = (only, report.counterexample)
        for kind in ("faulty", "mended"):
            path = folder / f"{len(paths)}.py"
            text = report.counterexample or "raise SystemExit('there is no script')"
            path.write_text(mended(text, faulty, right) if kind == "mended" and report.counterexample else text)
            paths.append(path)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    told = "\n".join(map(str, paths))
    done = subprocess.run([sys.executable, "-c", RUNNER], input=told, capture_output=True, text=True, env=environment)
    lines = [line for line in done.stdout.splitlines() if line in ("0", "1", "2")]
    assert len(lines) == len(paths), done.stderr
    ended = dict(zip(((param.id, kind) for param in CASES for kind in ("faulty", "mended")), lines, strict=True))
    return ended, scripts, done.stderr


@pytest.mark.xdist_group("scripts")  # one worker makes and runs all of them
@pytest.mark.parametrize("code, faulty, right, args", CASES)
def test_the_script_fails_as_long_as_the_fault_is_there(code, faulty, right, args, codes, request):
    ended, scripts, errors = codes
    name = request.node.callspec.id
    finding, script = scripts[name]
    assert finding is not None, "the fault was not found"
    assert script, "there is no script"
    assert script.startswith(f"# {code} ") and "gradwright import" not in script and "import gradwright" not in script
    assert (ended[name, "faulty"], ended[name, "mended"]) == ("1", "0"), errors


def test_a_script_is_run_as_it_stands(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(gw.check(Scaled, draw(4, 3), draw(4, 3, seed=1)).counterexample)
    done = subprocess.run([sys.executable, "-I", str(path)], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1 and "AssertionError: the gradient is not the derivative" in done.stderr
    assert "returned: " in done.stdout and "expected: " in done.stdout


def test_the_call_is_made_small_and_its_numbers_simple():
    script = gw.check(Scaled, draw(16, 8), draw(16, 8, seed=1)).counterexample
    assert "x = torch.tensor([[1.0]], dtype=torch.float64).requires_grad_()" in script


def test_a_right_subject_has_none():
    assert gw.check(ScaledRight, draw(4, 3), draw(4, 3, seed=1)).counterexample == ""


def test_asking_for_it_changes_nothing_of_the_callers():
    x, w = draw(4, 3), draw(4, 3, seed=1)
    before, state = x.clone(), torch.random.get_rng_state()
    assert gw.check(Scaled, x, w).counterexample
    assert torch.equal(x, before) and torch.equal(torch.random.get_rng_state(), state)
    assert not x.requires_grad and x.grad is None


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.register_buffer("mean", torch.zeros(3))
        self.scale = 2

    def forward(self, x):
        return Scaled.apply(self.linear(x) - self.mean, self.linear.bias.expand(len(x), 3)) * self.scale


def test_a_module_is_rebuilt_without_its_constructor():
    script = gw.check(Net(), draw(2, 4)).counterexample
    assert "Net.__new__(Net)" in script and fails(script)


def test_a_lambda_and_what_it_closes_over_are_written_down():
    factor = 3.0
    script = gw.check(
        lambda pair: Scaled.apply(pair["x"], pair["w"]) * factor, {"x": draw(3), "w": draw(3)}
    ).counterexample
    assert "factor = 3.0" in script and "subject({'x': pair_x, 'w': pair_w})" in script and fails(script)


class Holder:
    def __call__(self, x):
        return Scaled.apply(x, x)


def test_where_the_source_can_not_be_written_there_is_none():
    assert gw.check(Holder(), draw(3)).counterexample == ""
