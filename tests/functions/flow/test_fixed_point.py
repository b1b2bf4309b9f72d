"""A fixed point has the gradient of the implicit function theorem, or it raises."""

import copy
import functools
import pickle
import re
import types
import warnings

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

import gradwright as gw
from gradwright.errors import UsageError
from gradwright.functions.flow.adjoint import integrate
from gradwright.functions.flow.checkpoint import checkpoint as gw_checkpoint
from gradwright.functions.flow.fixed_point import (
    FixedPoint,
    FixedPointReport,
    NotConverged,
    NotConvergedWarning,
    equilibrium,
    fixed_point,
)
from gradwright.functions.flow.products import Pullback

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")

SOLVERS = ("anderson", "broyden", "iteration")


def numbers(*shape: int, scale: float = 1.0, seed: int = 0) -> Tensor:
    return scale * torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def f(z: Tensor, weight: Tensor, x: Tensor) -> Tensor:
    return torch.tanh(z @ weight.T + x)


WEIGHT, X = numbers(3, 3, scale=0.2), numbers(2, 3, seed=1)


def solved(weight: Tensor, x: Tensor, **options) -> Tensor:
    return fixed_point(f, torch.zeros_like(x), weight, x, tolerance=1e-13, **options)


def unrolled(weight: Tensor, x: Tensor) -> Tensor:
    """Autograd through so many iterations that what is left is rounding."""
    z = torch.zeros_like(x)
    for _ in range(80):
        z = f(z, weight, x)
    return z


class Cell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3, dtype=torch.float64)
        nn.init.normal_(self.inner.weight, std=0.2, generator=torch.Generator().manual_seed(2))

    def forward(self, z: Tensor, x: Tensor) -> Tensor:
        return torch.tanh(self.inner(z) + x)


def same(found, expected, tolerance: float = 1e-11) -> bool:
    found, expected = ([t] if isinstance(t, Tensor) else list(t) for t in (found, expected))
    return len(found) == len(expected) and all(
        torch.allclose(a, b, rtol=tolerance, atol=tolerance) for a, b in zip(found, expected, strict=True)
    )


# --- values and gradients --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
def test_value_and_gradient_are_those_of_the_iteration_run_to_its_end(solver):
    weight, x = WEIGHT.clone().requires_grad_(), X.clone().requires_grad_()
    found, expected = solved(weight, x, solver=solver), unrolled(weight, x)
    cotangent = numbers(2, 3, seed=3)
    assert same(found, expected)
    assert same(*(torch.autograd.grad(z, (weight, x), cotangent) for z in (found, expected)))


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_linear_fixed_point_has_the_gradient_of_the_linear_solve(solver):
    a, b = numbers(4, 4, scale=0.2).requires_grad_(), numbers(4, seed=1).requires_grad_()
    found = fixed_point(lambda z, a, b: a @ z + b, torch.zeros(4).double(), a, b, batched=False, solver=solver)
    expected = torch.linalg.solve(torch.eye(4).double() - a, b)
    cotangent = numbers(4, seed=3)
    assert same(found, expected)
    assert same(*(torch.autograd.grad(z, (a, b), cotangent) for z in (found, expected)), tolerance=1e-10)


@pytest.mark.parametrize("solver", ["anderson", "broyden"])
def test_an_f_that_does_not_contract_is_solved_where_plain_iteration_flees(solver):
    a = torch.diag(torch.tensor([-3.0, 0.5, -1.5]).double()).requires_grad_()
    b = torch.ones(3).double()
    with pytest.raises(NotConverged):
        fixed_point(lambda z, a: a @ z + b, torch.zeros(3).double(), a, batched=False, solver="iteration")
    found = fixed_point(lambda z, a: a @ z + b, torch.zeros(3).double(), a, batched=False, solver=solver)
    expected = torch.linalg.solve(torch.eye(3).double() - a, b)
    assert same(*(torch.autograd.grad(z.sum(), a) for z in (found, expected)), tolerance=1e-9)


def test_the_gradient_is_linear_in_a_cotangent_however_small():
    x = X.clone().requires_grad_()
    (one,) = torch.autograd.grad(solved(WEIGHT, x).sum(), x)
    (tiny,) = torch.autograd.grad(1e-200 * solved(WEIGHT, x).sum(), x)
    assert same(1e200 * tiny, one)


def test_a_second_backward_with_a_retained_graph_gives_the_same():
    x = X.clone().requires_grad_()
    z = solved(WEIGHT, x).sum()
    assert torch.equal(*(torch.autograd.grad(z, x, retain_graph=True)[0] for _ in range(2)))


def test_states_may_be_trees():
    def coupled(state, weight):
        return {"a": torch.tanh(state["b"][0] @ weight + 1), "b": (0.5 * state["a"].cos(),)}

    start = {"a": torch.zeros(2, 3).double(), "b": (torch.zeros(2, 3).double(),)}
    weight = WEIGHT.clone().requires_grad_()
    found = fixed_point(coupled, start, weight)
    state = start
    for _ in range(100):
        state = coupled(state, weight)
    assert same(found["b"][0], state["b"][0])
    assert same(*(torch.autograd.grad(s["a"].sum() + s["b"][0].sum(), weight) for s in (found, state)))


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 0.1), (torch.float16, 0.03)], ids=str
)
def test_lower_precisions_come_as_near_as_their_rounding_lets_them(dtype, tolerance):
    weight, x = WEIGHT.to(dtype).requires_grad_(), X.to(dtype)
    found = torch.autograd.grad(fixed_point(f, torch.zeros_like(x), weight, x).sum(), weight)[0]
    exact = weight.detach().double().requires_grad_()
    expected = torch.autograd.grad(unrolled(exact, x.double()).sum(), exact)[0]
    assert found.dtype == dtype
    assert torch.allclose(found.double(), expected, rtol=tolerance, atol=tolerance)


def test_the_backward_runs_under_the_autocast_of_the_forward():
    cell = Cell().float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = fixed_point(cell, torch.zeros(2, 3), X.float(), tolerance=0.02)
    z.sum().backward()
    assert z.dtype == torch.float32
    assert 0 < cell.inner.weight.grad.norm() < 10


def test_a_complex_argument_gets_its_gradient_in_both_modes():
    weight = torch.complex(WEIGHT, 0.1 * numbers(3, 3, seed=9)).requires_grad_()
    direction = torch.complex(numbers(3, 3, seed=7), numbers(3, 3, seed=8))

    def g(z, weight):
        return torch.tanh((z.to(weight.dtype) @ weight).real + (z.to(weight.dtype) @ weight**2).imag + X)

    z = torch.zeros_like(X)
    for _ in range(80):
        z = g(z, weight)
    (expected,) = torch.autograd.grad(z.sum(), weight)
    (found,) = torch.autograd.grad(fixed_point(g, torch.zeros_like(X), weight).sum(), weight)
    assert same(found, expected)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(weight.detach(), direction)
        tangent = forward_ad.unpack_dual(fixed_point(g, torch.zeros_like(X), dual)).tangent
    assert same(tangent.sum(), (expected.conj() * direction).real.sum())


def test_an_empty_batch_is_solved():
    weight = WEIGHT.clone().requires_grad_()
    z = solved(weight, X[:0])
    z.sum().backward()
    assert z.shape == (0, 3)
    assert not weight.grad.any()


# --- what gets a gradient --------------------------------------------------------------------------------------------


def in_closure(cell):
    return fixed_point(lambda z, x: cell(z, x), torch.zeros_like(X), X)


def in_list(cell):
    cells = [cell]
    return fixed_point(lambda z, x: cells[0](z, x), torch.zeros_like(X), X)


def decorated(cell):
    def call(z, x):
        return cell(z, x)

    return fixed_point(functools.wraps(call)(lambda *a: call(*a)), 0 * X, X)


WAYS = {
    "the function is the module": lambda cell: fixed_point(cell, torch.zeros_like(X), X),
    "in its closure": in_closure,
    "in a list in its closure": in_list,
    "behind a decorator": decorated,
    "bound to it": lambda cell: fixed_point(cell.forward, torch.zeros_like(X), X),
    "bound by partial": lambda cell: fixed_point(functools.partial(cell, x=X), torch.zeros_like(X)),
    "an argument": lambda cell: fixed_point(lambda z, cell: cell(z, X), torch.zeros_like(X), cell),
    "FixedPoint": lambda cell: FixedPoint(cell)(X),
}


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_parameters_of_modules_are_found(way):
    cell = Cell()
    z = torch.zeros_like(X)
    for _ in range(80):
        z = cell(z, X)
    expected = torch.autograd.grad(z.square().sum(), list(cell.parameters()))
    assert same(torch.autograd.grad(WAYS[way](cell).square().sum(), list(cell.parameters())), expected)


def test_frozen_parameters_get_nothing_and_the_start_gets_nothing():
    cell, start = Cell(), X.clone().requires_grad_()
    cell.inner.weight.requires_grad_(False)
    fixed_point(cell, start, X).sum().backward()
    assert cell.inner.weight.grad is None and start.grad is None
    assert cell.inner.bias.grad is not None


class Energy(nn.Module):
    """One step down an energy, by a gradient of its own: f that differentiates inside."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(WEIGHT.clone())

    def forward(self, z: Tensor, x: Tensor) -> Tensor:
        with torch.enable_grad():
            z = z if z.requires_grad else z.detach().requires_grad_()
            energy = 0.5 * z.square().sum() - torch.log(torch.cosh(z @ self.weight + x)).sum()
            return z - 0.5 * torch.autograd.grad(energy, z, create_graph=True)[0]


class Twice(Cell):
    """One module in two places, and one parameter in two modules."""

    def __init__(self) -> None:
        super().__init__()
        self.tied = nn.Linear(3, 3, dtype=torch.float64)
        self.tied.weight = self.inner.weight
        self.both = nn.Sequential(self.inner, nn.Tanh(), self.inner, nn.Tanh(), self.tied)

    def forward(self, z: Tensor, x: Tensor) -> Tensor:
        return torch.tanh(self.both(z) + x)


class Normalised(Cell):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.utils.parametrizations.weight_norm(self.inner)


class Recurrent(nn.Module):
    """Its parameters stand in a list of its own, too."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(3, 3, dtype=torch.float64)

    def forward(self, z: Tensor, x: Tensor) -> Tensor:
        return 0.3 * self.gru(z)[0] + x


@pytest.mark.parametrize("kind", [Energy, Twice, Normalised, Recurrent], ids=lambda kind: kind.__name__)
def test_any_module_gets_its_gradients_and_keeps_its_parameters(kind):
    cell = kind()
    parameters = dict(cell.named_parameters())
    z = torch.zeros_like(X).requires_grad_()
    for _ in range(100):
        z = cell(z, X)
    expected = torch.autograd.grad(z.square().sum(), list(parameters.values()))
    found = torch.autograd.grad(FixedPoint(cell)(X).square().sum(), list(parameters.values()))
    assert same(found, expected)
    assert all(parameter is parameters[name] for name, parameter in cell.named_parameters())


def test_checkpoints_go_around_it_and_into_it():
    def checkpointed(z, weight, x):
        return gw_checkpoint(lambda z, weight, x: f(z, weight, x), z, weight, x)

    for run in (
        lambda weight: gw_checkpoint(lambda weight: solved(weight, X), weight),
        lambda weight: fixed_point(checkpointed, torch.zeros_like(X), weight, X),
    ):
        weight = WEIGHT.clone().requires_grad_()
        found, expected = (torch.autograd.grad(z.sum(), weight) for z in (run(weight), unrolled(weight, X)))
        assert same(found, expected)


def test_a_simulation_inside_has_its_second_derivative_too():
    def euler(z, weight, x):
        return integrate(lambda z, weight, x: z + 0.3 * (f(z, weight, x) - z), z, weight, x, steps=4)

    def penalty(solve):
        weight, x = WEIGHT.clone().requires_grad_(), X.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(solve(weight, x).square().sum(), x, create_graph=True)
        return torch.autograd.grad(gradient.square().sum(), (weight, x))

    nested = penalty(lambda weight, x: fixed_point(euler, torch.zeros_like(x), weight, x))
    assert same(nested, penalty(unrolled), tolerance=1e-9)


def hidden(weight: Tensor):
    held = types.SimpleNamespace(weight=weight)
    return fixed_point(lambda z: f(z, held.weight, X), torch.zeros_like(X)).sum()


def captured(weight: Tensor):
    return fixed_point(lambda z: f(z, weight, X), torch.zeros_like(X)).sum()


def dual(function):
    with forward_ad.dual_level():
        return function(forward_ad.make_dual(WEIGHT, WEIGHT))


MISSED = {
    "autograd": lambda function: function(WEIGHT.clone().requires_grad_()),
    "autograd, with a history": lambda function: function(2 * WEIGHT.clone().requires_grad_()),
    "forward mode": dual,
    "torch.func.grad": lambda function: torch.func.grad(function)(WEIGHT),
    "torch.func.jvp": lambda function: torch.func.jvp(function, (WEIGHT,), (WEIGHT,)),
    "two levels": lambda function: torch.func.grad(
        lambda w: torch.func.grad(lambda x: function(w) * x)(torch.ones(()).double())
    )(WEIGHT),
}


@pytest.mark.parametrize("how", MISSED, ids=str)
@pytest.mark.parametrize("function", [captured, hidden], ids=["captured", "hidden"])
def test_a_tensor_that_would_silently_get_no_gradient_is_refused(how, function):
    with pytest.raises(UsageError, match="is none of its arguments"):
        MISSED[how](function)


def test_the_refusal_names_the_tensor_and_inference_needs_none():
    weight = WEIGHT.clone().requires_grad_()
    with pytest.raises(UsageError, match="`weight`"):
        captured(weight)
    with torch.no_grad():
        assert torch.isfinite(captured(weight))
    with torch.inference_mode():
        assert torch.isfinite(captured(weight))


LOOKED_AT = {
    "zeros like it": lambda z, w: z + torch.zeros_like(w),
    "in its shape": lambda z, w: z.view_as(w).reshape(w.shape),
    "in its dtype": lambda z, w: z.to(w).type_as(w),
    "detached": lambda z, w: z + 0 * w.detach(),
    "compared": lambda z, w: z * (w > 0),
}


@pytest.mark.parametrize("look", LOOKED_AT.values(), ids=list(LOOKED_AT))
def test_a_tensor_of_which_no_value_is_used_is_not_refused_under_torch_func(look):
    x = numbers(2)
    root = torch.zeros_like(x)
    for _ in range(80):
        root = 0.5 * root.cos() + x

    def weighted(w):
        return (w * fixed_point(lambda z: look(0.5 * z.cos() + x, w), torch.zeros_like(x), tolerance=1e-13)).sum()

    assert same(torch.func.grad(weighted)(torch.ones_like(x)), root)


def scaled_in_a_list(weight: Tensor):
    several = [{"w": weight}]
    return lambda z: f(z, several[0]["w"], X)


def scaled_within(weight: Tensor):
    def step(z):
        return f(z, weight, X)

    return lambda z: step(z)


@pytest.mark.parametrize(
    ("made", "name"),
    [(scaled_in_a_list, "several[0]['w']"), (scaled_within, "weight")],
    ids=["in a list", "in a function within"],
)
def test_the_refusal_names_the_tensor_wherever_it_hides(made, name):
    with pytest.raises(UsageError, match=re.escape(f"the tensor `{name}`")):
        fixed_point(made(WEIGHT.clone().requires_grad_()), torch.zeros_like(X))


# --- the oracles reject what is wrong --------------------------------------------------------------------------------


def test_gw_check_passes_with_finite_differences_as_the_judge():
    report = gw.check(lambda w, x: fixed_point(lambda z, w, x: torch.tanh(w * z + x), 0 * x, w, x), WEIGHT[:1], X[:1])
    assert report.ok, report
    assert {verdict.verdict for verdict in report.verdicts} == {"right"}


def test_gw_check_passes_on_the_module():
    report = gw.check(FixedPoint(Cell(), tolerance=1e-12), X[:1], level="quick")
    assert report.ok and {verdict.verdict for verdict in report.verdicts} == {"right"}, report


def transpose_missing(monkeypatch):
    """g = J g + z̄."""
    monkeypatch.setattr(
        Pullback, "__call__", lambda self, g, by=None: missing_transpose(self, g, by)
    )  # fmt: skip


def missing_transpose(pullback, g, by):
    exact = Pullback.__wrapped__(pullback, g, by)  # type: ignore[attr-defined]
    if by is not None and 0 in by:  # the products of the solver, by the state
        jacobian = torch.stack([
            Pullback.__wrapped__(pullback, [row], [0])[0].reshape(-1)  # type: ignore[attr-defined]
            for row in torch.eye(g[0].numel(), dtype=g[0].dtype).reshape(-1, *g[0].shape)
        ])  # fmt: skip
        return [(jacobian @ g[0].reshape(-1)).reshape(g[0].shape), *exact[1:]]
    return exact


FAULTS = {
    "a missing transpose": transpose_missing,
    "a backward solver stopped early": lambda monkeypatch: {"backward_tolerance": 0.3},
    "no backward solver at all": lambda monkeypatch: monkeypatch.setattr(
        equilibrium.Problem, "solve", no_solve(equilibrium.Problem.solve)
    ),
}


def no_solve(solve):
    """The one-step gradient (θ̄ = (∂f/∂θ)ᵀ z̄), which some train with, and which is not the derivative."""
    return lambda problem, start, tensors: start if problem.linear else solve(problem, start, tensors)


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_planted_fault_is_rejected(fault, monkeypatch):
    weight, x = numbers(3, 3, scale=0.3, seed=5), X[:1]
    assert gw.check(lambda w: solved(w, x, batched=False), weight, level="quick").ok
    monkeypatch.setattr(Pullback, "__wrapped__", Pullback.__call__, raising=False)
    options = FAULTS[fault](monkeypatch) or {}
    report = gw.check(lambda w: solved(w, x, batched=False, **options), weight, level="quick")
    assert [finding.code for finding in report.findings] == ["GW101"]
    leaf = weight.clone().requires_grad_()
    found = torch.autograd.grad(solved(leaf, x, batched=False, **options).sum(), leaf)
    assert not same(found, torch.autograd.grad(unrolled(leaf, x).sum(), leaf), tolerance=1e-3)


# --- convergence -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_sample_is_solved_by_itself_whatever_its_company(solver):
    easy, hard = torch.tensor([[0.1, 0.1]]).double(), torch.tensor([[0.9, 0.8]]).double()

    def run(rate):
        return fixed_point(lambda z, r: torch.cos(r * z), 0 * rate, rate, solver=solver, max_steps=300)

    together = run(torch.cat([easy, hard]))
    assert torch.equal(together, torch.cat([run(easy), run(hard)]))


def test_the_report_tells_steps_and_residuals():
    report = FixedPointReport()
    x = X.clone().requires_grad_()
    z = solved(WEIGHT, x, report=report)
    assert report.forward.converged and report.forward.residual <= 1e-13 and report.backward is None
    z.sum().backward()
    assert report.backward.converged and 1 < report.backward.steps < 20  # type: ignore[attr-defined]


FAILING = {
    "no fixed point": lambda **options: fixed_point(lambda z: z + 1, torch.zeros(2, 3), **options),
    "overflow": lambda **options: fixed_point(
        lambda z: 1 - 3 * z, torch.zeros(2, 3), solver="iteration", max_steps=500, **options
    ),
    "NaN": lambda **options: fixed_point(lambda z: z / 0, torch.zeros(2, 3), **options),
    "too few steps": lambda **options: solved(WEIGHT, X, max_steps=2, **options),
    "too few steps back": lambda **options: solved(
        WEIGHT, X.clone().requires_grad_(), backward_max_steps=2, **options
    ).sum().backward(),
}  # fmt: skip


@pytest.mark.parametrize("failing", FAILING, ids=str)
def test_what_does_not_converge_raises_or_warns_as_told(failing):
    with pytest.raises(NotConverged, match=r"was not reached[\s\S]*  do "):
        FAILING[failing]()
    with pytest.warns(NotConvergedWarning, match="was not reached"):
        FAILING[failing](on_failure="warn")


def test_a_random_f_has_no_fixed_point_and_says_so():
    torch.manual_seed(0)  # one run in some hundred draws equal masks until z stands still
    with pytest.raises(NotConverged, match="random"):
        fixed_point(lambda z, x: nn.functional.dropout(torch.tanh(z) + x), torch.zeros(2, 3), X.float())


def test_an_f_that_has_changed_before_the_backward_is_noticed():
    offset = [1.0]
    x = X.clone().requires_grad_()
    z = fixed_point(lambda z, x: torch.tanh(0.3 * z + offset[0] * x), torch.zeros_like(X), x)
    offset[0] = 2.0
    with pytest.raises(NotConverged, match="has changed"):
        z.sum().backward()


def test_parameters_that_have_changed_before_the_backward_are_noticed():
    cell = Cell()
    z = fixed_point(cell, torch.zeros_like(X), X)
    with torch.no_grad():
        cell.inner.weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_buffers_are_updated_once_at_the_fixed_point():
    class Normed(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(3, dtype=torch.float64)

        def forward(self, z, x):
            return torch.tanh(0.3 * self.norm(z) + x)

    cell = Normed()
    z = fixed_point(cell, torch.zeros(4, 3).double(), numbers(4, 3))
    z.sum().backward()
    assert cell.norm.num_batches_tracked == 1
    assert torch.allclose(cell.norm.running_mean, 0.1 * z.mean(0))


@pytest.mark.parametrize(("misuse", "told"), [
    (lambda: fixed_point(lambda z: z[:1], X), "changes the state's shape or dtype"),
    (lambda: fixed_point(lambda z: z.float(), X), "changes the state's shape or dtype"),
    (lambda: fixed_point(lambda z: (z,), X), "the function's result is no state"),
    (lambda: fixed_point(lambda z: z.mul_(0.5), X.clone()), "in place"),
    (lambda: torch.func.vmap(lambda x: fixed_point(lambda z: z.mul_(0.5), x))(X.clone()), "in place"),
    (lambda: fixed_point(lambda z: z, X.to(torch.complex128)), "floating-point tensor"),
    (lambda: fixed_point(lambda z: z, (X, X[:1])), "disagree about the size of the batch"),
    (lambda: fixed_point(lambda z: z, ()), "holds no tensor"),
    (lambda: fixed_point(3, X), "needs a callable"),
    (lambda: fixed_point(lambda z: z, X, solver="newton"), "no solver 'newton'"),
    (lambda: fixed_point(lambda z: z, X, max_steps=0), "at least one step"),
    (lambda: fixed_point(lambda z: z, X, on_failure="ignore"), "on_failure"),
    (lambda: FixedPoint(Cell(), tol=1), "no option 'tol'"),
    (lambda: FixedPoint(f), "needs a module"),
    (lambda: FixedPoint(Cell())("x"), "give z0="),
], ids=lambda case: case if isinstance(case, str) else "")  # fmt: skip
def test_misuse_is_told(misuse, told):
    with pytest.raises(UsageError, match=re.escape(told)):
        misuse()


# --- transforms ------------------------------------------------------------------------------------------------------


def loss(solve, weight, x):
    return solve(weight, x).square().sum()


def test_the_double_backward_is_implicit_too():
    weight, x = WEIGHT.clone().requires_grad_(), X.clone().requires_grad_()

    def penalty(solve):
        (gradient,) = torch.autograd.grad(loss(solve, weight, x), x, create_graph=True)
        return torch.autograd.grad(gradient.square().sum(), (weight, x))

    assert same(penalty(solved), penalty(unrolled))


TRANSFORMS = {
    "grad": lambda solve: torch.func.grad(lambda w: loss(solve, w, X))(WEIGHT),
    "jacrev": lambda solve: torch.func.jacrev(lambda w: solve(w, X))(WEIGHT),
    "jacfwd": lambda solve: torch.func.jacfwd(lambda w: solve(w, X))(WEIGHT),
    "hessian": lambda solve: torch.func.hessian(lambda x: loss(solve, WEIGHT, x))(X),
    "jacrev of jacrev": lambda solve: torch.func.jacrev(torch.func.jacrev(lambda x: loss(solve, WEIGHT, x)))(X),
    "vmap": lambda solve: torch.func.vmap(solve)(torch.stack([WEIGHT, 2 * WEIGHT]), torch.stack([X, -X])),
    "vmap of grad": lambda solve: torch.func.vmap(torch.func.grad(lambda w, x: loss(solve, w, x)), in_dims=(None, 1))(
        WEIGHT, torch.stack([X, -X], dim=1)
    ),
}


@pytest.mark.parametrize("transform", TRANSFORMS, ids=str)
def test_under_torch_func_it_is_what_the_iteration_is(transform):
    assert same(TRANSFORMS[transform](solved), TRANSFORMS[transform](unrolled), tolerance=1e-10)


def test_forward_mode_solves_the_tangent_equation_and_its_jvp_is_the_transposed_vjp():
    direction, cotangent = numbers(3, 3, seed=7), numbers(2, 3, seed=8)
    weight = WEIGHT.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(solved(weight, X), weight, cotangent)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(solved(forward_ad.make_dual(WEIGHT, direction), X)).tangent
    assert same((cotangent * tangent).sum(), (gradient * direction).sum())


def test_per_sample_gradients_of_a_module_add_up_to_its_gradient():
    layer = FixedPoint(Cell())
    parameters = {name: parameter.detach() for name, parameter in layer.named_parameters()}

    def one(parameters, x):
        return torch.func.functional_call(layer, parameters, (x[None],)).square().sum()

    each = torch.func.vmap(torch.func.grad(one), in_dims=(None, 0))(parameters, X)
    layer(X).square().sum().backward()
    assert same([gradient.sum(0) for gradient in each.values()], [p.grad for p in layer.parameters()])


def test_in_a_compiled_network_it_breaks_the_graph_and_a_full_graph_is_refused():
    def network(weight, x):
        return solved(weight, 2 * x) + 1

    weight = WEIGHT.clone().requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, about its own
        with pytest.raises(Exception, match=r"marked as skipped|disable"):
            torch.compile(network, backend="eager", fullgraph=True)(weight, X)
        torch.compiler.reset()
        found = torch.compile(network, backend="eager")(weight, X)
    assert same(*(torch.autograd.grad(z.sum(), weight) for z in (found, network(weight, X))))


def test_the_module_survives_copies_and_pickles():
    layer = FixedPoint(Cell(), tolerance=1e-9)
    layer(X).sum().backward()
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(twin(X), layer(X))
        assert twin.options == layer.options
