"""Under transforms a tap shows right figures, or says that it did not see; it never raises, never changes a result."""

import functools
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from gradwright.functions.tap import Tap, tap, taps
from gradwright.functions.tap.traced import TRACED, trace

# Torch's own, while Dynamo looks at a tensor that is no leaf, and at a Function.
DYNAMO_WARNS = ("ignore:The .grad attribute", "ignore:.*should not be instantiated")


@pytest.fixture(autouse=True)
def nothing_traced():
    yield
    TRACED.clear()


def f(x):
    return tap("out", tap("hidden", x * 2) ** 2).sum()


def plain(x):
    return ((x * 2) ** 2).sum()


def shown(seen):
    return {(row.name, row.direction): (row.passages, round(row.mean_norm, 4)) for row in seen.rows}


def unseen(seen):
    return {(entry.name, entry.direction, entry.why) for entry in seen.not_seen if entry.times}


def test_under_func_grad_both_directions_are_seen():
    x = torch.tensor([3.0, 4.0])
    with taps() as seen:
        assert torch.equal(torch.func.grad(f)(x), torch.func.grad(plain)(x))
    assert shown(seen) == {
        ("hidden", "forward"): (1, 10.0), ("hidden", "backward"): (1, 20.0),
        ("out", "forward"): (1, 73.4302), ("out", "backward"): (1, 1.4142),
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_under_forward_mode_the_primal_is_seen():
    x = torch.tensor([3.0, 4.0])
    with taps() as seen:
        value, tangent = torch.func.jvp(f, (x,), (torch.ones(2),))
    assert (value, tangent) == torch.func.jvp(plain, (x,), (torch.ones(2),))
    assert shown(seen) == {("hidden", "forward"): (1, 10.0), ("out", "forward"): (1, 73.4302)}


def test_under_vmap_the_table_says_that_it_did_not_see():
    x = torch.randn(3, 2)
    with taps() as seen:
        assert torch.equal(torch.func.vmap(torch.func.grad(f))(x), torch.func.vmap(torch.func.grad(plain))(x))
    assert not seen.rows
    assert unseen(seen) == {(name, "forward", "inside torch.vmap") for name in ("hidden", "out")}
    assert "not seen, inside torch.vmap: hidden (forward, 1 time), out (forward, 1 time)" in str(seen)


@pytest.mark.filterwarnings("ignore:.*torch.jit")
@pytest.mark.parametrize("transform", [torch.func.jacrev, torch.func.hessian, torch.func.jacfwd])
def test_jacobians_are_right_and_what_was_batched_is_listed(transform):
    x = torch.randn(3)
    with taps() as seen:
        assert torch.equal(transform(f)(x), transform(plain)(x))
    assert seen.rows or unseen(seen)
    assert {why for _, _, why in unseen(seen)} <= {"inside torch.vmap"}


def test_a_batch_of_gradients_is_listed_as_not_seen():
    x = torch.ones(3, requires_grad=True)
    with taps() as seen:
        y = tap("hidden", x * 2)
        torch.autograd.grad(y, x, torch.eye(3), is_grads_batched=True)
    assert unseen(seen) == {("hidden", "backward", "inside torch.vmap")}


def test_double_backward_shows_each_pass():
    x = torch.tensor([2.0], requires_grad=True)
    with taps() as seen:
        (first,) = torch.autograd.grad(tap("cube", x * x) * x, x, create_graph=True)
        (second,) = torch.autograd.grad(tap("first", first), x)
    assert second.tolist() == [12.0]
    assert shown(seen)["first", "forward"] == (1, 12.0) and shown(seen)["first", "backward"] == (1, 1.0)
    assert shown(seen)["cube", "backward"][0] == 2


@pytest.mark.parametrize("reentrant", [True, False], ids=["reentrant", "not reentrant"])
def test_a_checkpoint_shows_the_forward_that_runs_again(reentrant):
    x = torch.tensor([3.0, 4.0], requires_grad=True)
    with taps() as seen:
        checkpoint(f, x, use_reentrant=reentrant).backward()
    assert x.grad.tolist() == [24.0, 32.0]
    figures = shown(seen)
    assert figures["hidden", "forward"] == figures["hidden", "in backward"] == (1, 10.0)
    assert figures["hidden", "backward"] == (1, 20.0)


def test_a_selective_checkpoint_neither_sees_nor_saves_what_a_tap_computes():
    ops = set()

    def policy(ctx, op, *args, **kwargs):
        ops.add(str(op))
        return CheckpointPolicy.MUST_SAVE

    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    x = torch.randn(2, 3, requires_grad=True)

    def work(x):
        return tap("tanh", x.tanh(), every=2).exp()

    with taps() as seen:
        checkpoint(work, x, use_reentrant=False, context_fn=contexts).sum().backward()
    assert torch.allclose(x.grad, (1 - x.tanh() ** 2) * x.tanh().exp())
    assert ops == {"aten.tanh.default", "aten.exp.default"} and seen.rows


def test_no_mode_of_the_users_sees_the_tap_at_work():
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    ops = []

    class Dispatch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            ops.append(function)
            return function(*args, **(kwargs or {}))

    class Function(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            ops.append(function)
            return function(*args, **(kwargs or {}))

    x = torch.ones(3, requires_grad=True) * 1
    with taps() as seen, Dispatch(), Function():
        tap("hidden", x)
    assert not ops and seen.rows


def test_autocast_and_defaults_do_not_touch_the_figures():
    with taps() as seen:
        with torch.autocast("cpu", dtype=torch.float16):
            tap("large", torch.full((4,), 1e30))
        with torch.device("meta"):
            tap("device", torch.ones(4, device="cpu"))
        with torch.inference_mode():
            tap("inference", torch.ones(4))
    assert [row.mean_norm for row in seen.rows] == [pytest.approx(2e30), 2.0, 2.0]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_graph_passes_whole_and_its_taps_are_listed(backend):
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(2, 3), Tap("compiled"), nn.ReLU())
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    x = torch.randn(4, 2)
    compiled(x)
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    for _ in range(2):  # each session tells
        with taps() as seen:
            out = compiled(x)
            tap("outside", out).sum().backward()
        assert torch.equal(out, model(x))
        assert [(entry.name, entry.why) for entry in seen.not_seen] == [("compiled", "inside torch.compile")]
        assert [row.name for row in seen.rows] == ["outside", "outside"]
        assert "not seen, inside torch.compile: compiled" in str(seen)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == graphs  # switching on compiles nothing again


@pytest.mark.filterwarnings(*DYNAMO_WARNS)
def test_taps_in_a_compiled_function_with_a_backward_are_listed():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return tap("grad of x", grad_output * 2 * x)

    torch._dynamo.reset()
    x = torch.tensor([3.0], requires_grad=True)
    with taps() as seen:
        torch.compile(lambda x: Square.apply(tap("x", x)), fullgraph=True, backend="aot_eager")(x).backward()
    assert x.grad.tolist() == [6.0] and not seen.rows
    assert {entry.name for entry in seen.not_seen} == {"x", "grad of x"}


@pytest.mark.filterwarnings(*DYNAMO_WARNS)
def test_hooks_in_a_compiled_backward_are_listed():
    torch._dynamo.reset()
    x = torch.ones(2, requires_grad=True)
    with taps() as seen:
        y = tap("eager", x * 2)
        with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
            y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0] and [row.direction for row in seen.rows] == ["forward"]
    assert [(entry.name, entry.why) for entry in seen.not_seen] == [("eager", "inside torch.compile")]


def test_importing_taps_does_not_import_the_compiler():
    code = (
        "import sys, gradwright.functions.tap; sys.exit(any(name in sys.modules for name in ('torch._dynamo', 'rich')))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_mark_is_the_one_that_torch_sets():
    def marked():
        """As torch marks it."""

    assert vars(torch.compiler.assume_constant_result(marked)).items() <= vars(trace).items()


def test_export_leaves_no_trace_of_a_tap():
    model = nn.Sequential(nn.Linear(2, 2), Tap("exported"))
    with taps() as seen:
        program = torch.export.export(model, (torch.ones(1, 2),))
    assert not seen.rows and seen.not_seen
    assert torch.equal(program.module()(torch.ones(1, 2)), model(torch.ones(1, 2)))
