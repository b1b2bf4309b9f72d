"""A simulation has the gradient of the loop that ran, from few kept states, or it raises."""

import copy
import functools
import gc
import math
import pickle
import random
import re
import warnings
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

import gradwright as gw
from gradwright.errors import UsageError
from gradwright.functions.flow.adjoint import Simulation, integrate, replay, trajectory
from gradwright.functions.flow.adjoint.plan import Plan

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")

STEPS = 13


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def leapfrog(state, k, stiffness, dt=0.1):
    """A chain of springs whose stiffness changes with time: kick, drift."""
    x, v = state
    v = v - dt * (1 + 0.02 * k) * torch.sin(x @ stiffness)
    return x + dt * v, v


def leapfrog_back(state, k, stiffness, dt=0.1):
    x, v = state
    x = x - dt * v
    return x, v + dt * (1 + 0.02 * k) * torch.sin(x @ stiffness)


X, V, STIFFNESS = numbers(2, 3), numbers(2, 3, seed=1), torch.eye(3).double() + 0.1 * numbers(3, 3, seed=2)


def simulated(x, v, stiffness, outputs="last", **options):
    return integrate(leapfrog, (x, v), stiffness, steps=STEPS, indexed=True, outputs=outputs, **options)


def unrolled(x, v, stiffness, outputs="last"):
    states = [(x, v)]
    for k in range(STEPS):
        states.append(leapfrog(states[-1], k, stiffness))
    if outputs == "last":
        return states[-1]
    at = range(STEPS + 1) if outputs == "all" else outputs
    return tuple(torch.stack([states[k][part] for k in at]) for part in (0, 1))


def leaves() -> tuple[Tensor, ...]:
    return tuple(tensor.clone().requires_grad_() for tensor in (X, V, STIFFNESS))


def gradients(outputs, inputs):
    cotangents = [numbers(*output.shape, seed=5 + place) for place, output in enumerate(outputs)]
    return torch.autograd.grad(outputs, inputs, cotangents)


def same(found, expected, tolerance: float = 1e-12) -> bool:
    found, expected = ([t] if isinstance(t, Tensor) else list(t) for t in (found, expected))
    return len(found) == len(expected) and all(
        torch.allclose(a, b, rtol=tolerance, atol=tolerance) for a, b in zip(found, expected, strict=True)
    )


class Law(nn.Module):
    """x' = tanh(W x + b), stepped by Euler's method."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3, dtype=torch.float64)
        nn.init.normal_(self.inner.weight, generator=torch.Generator().manual_seed(2))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return x + 0.1 * self.dropout(torch.tanh(self.inner(x)))


def looped(law: nn.Module, x: Tensor) -> Tensor:
    for _ in range(STEPS):
        x = law(x)
    return x


# --- values and gradients --------------------------------------------------------------------------------------------

MEMORIES = {f"memory={memory}": {"memory": memory} for memory in (0, 1, 2, 5, STEPS, 100, None)}
WAYS = {**MEMORIES, "inverse": {"inverse": leapfrog_back}}


@pytest.mark.parametrize("outputs", ["last", "all", [0, 4, 4, 9]], ids=str)
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_value_and_gradient_are_those_of_the_unrolled_loop_to_rounding(way, outputs):
    ours, theirs = leaves(), leaves()
    found, expected = simulated(*ours, outputs=outputs, **WAYS[way]), unrolled(*theirs, outputs=outputs)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert same(gradients(found, ours), gradients(expected, theirs))


@pytest.mark.parametrize("steps", [1, 2, 3, 7])
@pytest.mark.parametrize("memory", [0, 1, 3])
def test_any_number_of_steps_with_any_number_of_states(steps, memory):
    law, x = Law(), X.clone().requires_grad_()
    found = integrate(law, x, steps=steps, memory=memory)
    expected = functools.reduce(lambda x, _: law(x), range(steps), x)
    assert same(*(torch.autograd.grad(y.sum(), (x, *law.parameters())) for y in (found, expected)))


def test_a_retained_graph_gives_the_same_gradient_again():
    ours = leaves()
    loss: Any = sum(part.sum() for part in simulated(*ours))
    assert same(torch.autograd.grad(loss, ours, retain_graph=True), torch.autograd.grad(loss, ours))


def test_only_what_needs_a_gradient_gets_one():
    law = Law()
    law.inner.weight.requires_grad_(False)
    integrate(law, X, steps=STEPS).sum().backward()
    assert law.inner.weight.grad is None
    bias = law.inner.bias.grad.clone()
    looped(law, X).sum().backward()
    assert same(0.5 * law.inner.bias.grad, bias)


LAWS = {
    "the step is the module": lambda law: integrate(law, X, steps=STEPS),
    "in its closure": lambda law: integrate(lambda x: law(x), X, steps=STEPS),
    "bound to it": lambda law: integrate(law.forward, X, steps=STEPS),
    "an argument": lambda law: integrate(lambda x, law: law(x), X, law, steps=STEPS),
    "Simulation": lambda law: Simulation(law, steps=STEPS)(X),
}


@pytest.mark.parametrize("way", LAWS, ids=str)
def test_parameters_of_modules_are_found(way):
    law = Law()
    assert same(
        *(torch.autograd.grad(y.square().sum(), list(law.parameters())) for y in (LAWS[way](law), looped(law, X)))
    )


def test_a_captured_tensor_that_would_get_no_gradient_is_refused():
    rate = torch.tensor(0.3, requires_grad=True)
    with pytest.raises(UsageError, match=r"`rate`.* none of its arguments"):
        integrate(lambda x: x - rate * x, torch.ones(2), steps=3)
    with pytest.raises(UsageError, match="none of its arguments"):
        torch.func.grad(lambda rate: integrate(lambda x: x - rate * x, torch.ones(2), steps=3).sum())(rate.detach())
    with torch.no_grad():
        assert same(integrate(lambda x: x - rate * x, torch.ones(2), steps=3), torch.full((2,), 0.7**3), 1e-6)


def test_the_backward_runs_under_the_autocast_of_the_forward():
    law = Law().float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y, expected = integrate(law, X.float(), steps=3), law(law(law(X.float())))
    parameters = list(law.parameters())
    assert y.dtype == torch.float32
    assert same(*(torch.autograd.grad(each.sum(), parameters) for each in (y, expected)), tolerance=1e-2)


# --- memory and cost -------------------------------------------------------------------------------------------------


@functools.cache
def fewest(steps: int, snapshots: int) -> int:
    """Steps to run again, by trying every cut (dynamic programming)."""
    if steps == 1:
        return 0
    if snapshots == 1:
        return steps * (steps - 1) // 2
    return min(m + fewest(m, snapshots) + fewest(steps - m, snapshots - 1) for m in range(1, steps))


@pytest.mark.parametrize("steps", [1, 2, 5, 12, 30])
@pytest.mark.parametrize("memory", [0, 1, 2, 4, 40])
def test_no_schedule_runs_fewer_steps_again(steps, memory):
    calls = [0]

    def step(x, rate):
        calls[0] += 1
        return x - rate * x

    rate = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
    y = integrate(step, torch.ones(1).double(), rate, steps=steps, memory=memory)
    once, look_aside = steps, 1
    y.backward()
    last, with_graph = 1, steps  # the last step is no part of the schedule: its result is the simulation's
    assert calls[0] == look_aside + last + fewest(steps, memory + 1) + with_graph
    assert once <= calls[0]


@pytest.mark.parametrize("memory", [0, 1, 3, 8])
def test_no_more_states_are_alive_than_were_asked_for(memory):
    alive: weakref.WeakSet = weakref.WeakSet()
    most = [0]

    def step(x, rate):
        most[0] = max(most[0], len(alive))
        new = x - rate * x
        storage = new.untyped_storage()
        alive.add(storage)
        return new

    rate = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
    y = integrate(step, torch.ones(4).double(), rate, steps=60, memory=memory)
    y.sum().backward()
    assert most[0] <= memory + 3  # the state in work, the one before it, the result of a step with its graph


@pytest.mark.parametrize("steps", [1, 10, 100, 1000])
def test_by_default_a_step_is_run_at_most_twice_and_once_with_its_graph(steps):
    memory = replay.states_for_two_sweeps(steps)
    assert memory <= math.sqrt(2 * steps)
    tape = replay.Tape(steps, memory)
    state, again = (torch.zeros(1),), []
    for position in range(steps):
        tape.see(position, state)
    assert len(tape.stack) <= memory + 2
    list(tape.backwards(tape.stack[0], lambda state, start, end: again.extend(range(start, end)) or state))  # type: ignore[func-returns-value]
    assert len(again) == len(set(again)) < steps


def test_nothing_is_kept_of_a_graph_that_is_gone():
    ours = leaves()
    states = simulated(*ours, outputs="all", memory=STEPS)
    node = weakref.ref(states[0].grad_fn)
    gradients(states, ours)
    del states
    gc.collect()
    assert node() is None


# --- what a step has to keep to --------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [0, 2, None], ids=str)
def test_random_numbers_are_replayed_and_the_generator_is_left_where_the_forward_left_it(memory):
    law = Law(dropout=0.5)
    parameters = list(law.parameters())
    torch.manual_seed(3)
    expected = looped(law, X)
    after = torch.rand(1)
    torch.manual_seed(3)
    found = integrate(law, X, steps=STEPS, memory=memory)
    assert torch.equal(found, expected) and torch.equal(torch.rand(1), after)
    before = torch.get_rng_state()
    once = torch.autograd.grad(found.sum(), parameters, create_graph=True)
    assert torch.equal(torch.get_rng_state(), before)
    assert same(torch.autograd.grad(found.sum(), parameters), once)
    assert same(torch.autograd.grad(expected.sum(), parameters), once)


def python_noise(x, rate):
    return x - rate * x + random.random()


def own_generator(generator, x, rate):
    return x - rate * x + torch.rand(x.shape, generator=generator, dtype=x.dtype)


def own_state(calls, x, rate):
    calls.append(0)
    return x - rate * x * len(calls)


IRREPRODUCIBLE = {
    "python's random numbers": lambda: python_noise,
    "a generator of its own": lambda: functools.partial(own_generator, torch.Generator()),
    "a state of its own": lambda: functools.partial(own_state, []),
}


def forward_derivative(run, rate):
    with forward_ad.dual_level():
        return run(forward_ad.make_dual(rate, torch.ones_like(rate)))


DERIVATIVES = {
    "backward": lambda run, rate: torch.autograd.grad(run(rate.requires_grad_()), rate),
    "double backward": lambda run, rate: torch.autograd.grad(run(rate.requires_grad_()), rate, create_graph=True),
    "forward mode": forward_derivative,
    "torch.func.grad": lambda run, rate: torch.func.grad(run)(rate),
    "torch.func.jacfwd": lambda run, rate: torch.func.jacfwd(run)(rate),
    "vmap of grad": lambda run, rate: torch.func.vmap(torch.func.grad(run))(torch.stack([rate, 2 * rate])),
}


@pytest.mark.parametrize("how", DERIVATIVES, ids=str)
@pytest.mark.parametrize("step", IRREPRODUCIBLE, ids=str)
def test_a_step_that_is_not_reproducible_is_noticed(step, how):
    step = IRREPRODUCIBLE[step]()
    with pytest.raises((UsageError, RuntimeError), match=r"not reproducible|randomness error mode"):
        DERIVATIVES[how](
            lambda rate: integrate(step, torch.ones(2).double(), rate, steps=5, outputs=[2, 5]).sum(),
            torch.tensor(0.1, dtype=torch.float64),
        )


WRONG_INVERSES = {
    "the identity": lambda state, k, stiffness: state,
    "another sign": lambda state, k, stiffness: leapfrog_back(state, k, -stiffness),
    "another order": lambda state, k, stiffness: leapfrog(state, k, stiffness, dt=-0.1),
    "another time": lambda state, k, stiffness: leapfrog_back(state, k + 1, stiffness),
}


@pytest.mark.parametrize("inverse", WRONG_INVERSES, ids=str)
def test_an_inverse_that_is_none_is_noticed(inverse):
    ours = leaves()
    states = simulated(*ours, inverse=WRONG_INVERSES[inverse])
    with pytest.raises(UsageError, match="inverse does not undo the step"):
        gradients(states, ours)


def test_rounding_that_grows_on_the_way_back_is_noticed():
    rate = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    decayed = integrate(
        lambda x, rate: 0.1 * x + rate, torch.ones(2).double(), rate, steps=30, inverse=lambda x, rate: (x - rate) / 0.1
    )
    with pytest.raises(UsageError, match="forgets"):
        decayed.sum().backward()


def written_on(x, rate):
    x -= rate * x
    return x


def written_on_argument(x, rate):
    rate *= 0.9
    return x - rate * x


@pytest.mark.parametrize("step", [written_on, written_on_argument], ids=["state", "argument"])
def test_a_step_that_writes_on_what_it_is_handed_is_refused(step):
    with pytest.raises(UsageError, match="in place"):
        integrate(step, torch.ones(2), torch.tensor(0.1), steps=3)


def test_a_parameter_that_has_changed_before_the_backward_is_noticed():
    law = Law()
    y = integrate(law, X, steps=3)
    with torch.no_grad():
        law.inner.weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_what_the_caller_does_with_the_result_does_no_harm():
    ours, theirs = leaves(), leaves()
    found = simulated(*ours, inverse=leapfrog_back)
    changed = [part.mul_(2) for part in found]
    assert same(gradients(changed, ours), gradients([2 * part for part in unrolled(*theirs)], theirs))


def test_buffers_are_updated_by_the_forward_only():
    class Normed(Law):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(3, dtype=torch.float64)

        def forward(self, x):
            return super().forward(self.norm(x))

    law = Normed()
    twin = copy.deepcopy(law)
    y, expected = integrate(law, X, steps=STEPS), looped(twin, X)
    y.sum().backward()
    expected.sum().backward()
    assert all(torch.equal(a, b) for a, b in zip(law.buffers(), twin.buffers(), strict=True))
    assert same([p.grad for p in law.parameters()], [p.grad for p in twin.parameters()], 1e-9)


@pytest.mark.parametrize(("misuse", "told"), [
    (lambda: integrate(lambda x: x[:1], X, steps=2), "changes the state's shape or dtype"),
    (lambda: integrate(lambda x: (x,), X, steps=2), "result is no state"),
    (lambda: integrate(lambda x: x, X.to(torch.complex128), steps=2), "floating-point tensor"),
    (lambda: integrate(lambda x: x, {}, steps=2), "holds no tensor"),
    (lambda: integrate(lambda x: x, X, steps=0), "steps is a whole number"),
    (lambda: integrate(lambda x: x, X, steps=True), "steps is a whole number"),
    (lambda: integrate(lambda x: x, X, steps=2, memory=-1), "memory"),
    (lambda: integrate(lambda x: x, X, steps=2, outputs=[3]), "from 0 to 2"),
    (lambda: integrate(lambda x: x, X, steps=2, outputs=[]), "outputs is"),
    (lambda: integrate(lambda x: x, X, steps=2, outputs="first"), "outputs is"),
    (lambda: Simulation(Law(), steps=2, memry=3), "no option 'memry'"),
], ids=lambda case: case if isinstance(case, str) else "")  # fmt: skip
def test_misuse_is_told(misuse, told):
    with pytest.raises(UsageError, match=re.escape(told)):
        misuse()


# --- the oracles reject what is wrong --------------------------------------------------------------------------------


def spring(x, stiffness):
    def step(state, stiffness):
        x, v = state
        v = v - 0.1 * stiffness * x
        return x + 0.1 * v, v

    return integrate(step, (x, torch.zeros_like(x)), stiffness, steps=7, outputs=[3, 7])


def test_gw_check_passes():
    report = gw.check(spring, X[:1], STIFFNESS[0])
    assert report.ok and {verdict.verdict for verdict in report.verdicts} == {"right"}, report


def test_gw_check_passes_on_the_module():
    report = gw.check(Simulation(Law(), steps=4), X[:1], level="quick")
    assert report.ok and {verdict.verdict for verdict in report.verdicts} == {"right"}, report


def stale(states):
    """Every step linearised at the state after it."""

    def late(*args):
        after = None
        for position, state in states(*args):
            yield position, state if after is None else after
            after = state

    return late


def forgetful(inward):
    """The cotangents of intermediate outputs dropped."""
    return lambda plan, cotangents: {k: c for k, c in inward(plan, cotangents).items() if k == plan.steps}


FAULTS = {
    "linearised at the wrong state": lambda m: m.setattr(
        trajectory, "states_backwards", stale(trajectory.states_backwards)
    ),
    "intermediate cotangents dropped": lambda m: m.setattr(Plan, "inward", forgetful(Plan.inward)),
}


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_planted_fault_is_rejected(fault, monkeypatch):
    monkeypatch.setattr(trajectory, "refuse_gap", lambda worst, plan: None)  # it would notice the first one by itself
    assert gw.check(spring, X[:1], STIFFNESS[0], level="quick").ok
    FAULTS[fault](monkeypatch)
    assert "GW101" in [finding.code for finding in gw.check(spring, X[:1], STIFFNESS[0], level="quick").findings]


def test_a_wrong_replay_is_noticed_by_the_adjoint_itself(monkeypatch):
    monkeypatch.setattr(trajectory, "states_backwards", stale(trajectory.states_backwards))
    ours = leaves()
    with pytest.raises(UsageError, match="not reproducible"):
        gradients(simulated(*ours), ours)


def test_the_continuous_adjoint_is_not_the_gradient_of_the_program():
    """Why the discrete one is used: for x' = -r x³, stepped by Euler, the adjoint equation discretised by itself."""
    rate, dt, steps = torch.tensor(1.0, dtype=torch.float64, requires_grad=True), 0.05, 20
    y = integrate(lambda x, r: x - dt * r * x**3, torch.ones(1).double(), rate, steps=steps, outputs="all")
    (discrete,) = torch.autograd.grad(y[-1].sum(), rate)
    costate, continuous, x = 1.0, 0.0, y[-1].item()
    for _ in range(steps):  # backwards in time from the end: x too, as Chen et al. 2018 do
        costate, continuous, x = costate - dt * 3 * x**2 * costate, continuous - dt * costate * x**3, x + dt * x**3
    states = [torch.ones(1).double()]
    for _ in range(steps):
        states.append(states[-1] - dt * rate * states[-1] ** 3)
    assert same(discrete, torch.autograd.grad(states[-1].sum(), rate)[0])
    assert abs(continuous - discrete.item()) > 0.01 * abs(discrete.item())


# --- transforms ------------------------------------------------------------------------------------------------------


def energy(run, x, stiffness):
    return sum(part.square().sum() for part in run(x, V, stiffness, outputs=[4, STEPS]))


def test_the_double_backward_is_that_of_the_loop():
    def penalty(run):
        x, _, stiffness = leaves()
        (gradient,) = torch.autograd.grad(energy(run, x, stiffness), x, create_graph=True)
        return torch.autograd.grad(gradient.square().sum(), (x, stiffness))

    assert same(penalty(simulated), penalty(unrolled))


TRANSFORMS = {
    "grad": lambda run: torch.func.grad(lambda s: energy(run, X, s))(STIFFNESS),
    "jacrev": lambda run: torch.func.jacrev(lambda s: run(X, V, s)[0])(STIFFNESS),
    "jacfwd": lambda run: torch.func.jacfwd(lambda s: run(X, V, s, outputs=[2, 5])[0])(STIFFNESS),
    "hessian": lambda run: torch.func.hessian(lambda x: energy(run, x, STIFFNESS))(X),
    "vmap": lambda run: torch.func.vmap(lambda s: run(X, V, s, outputs="all"))(torch.stack([STIFFNESS, 2 * STIFFNESS])),
    "vmap of grad": lambda run: torch.func.vmap(torch.func.grad(lambda x, s: energy(run, x, s)), in_dims=(1, None))(
        torch.stack([X, -X], dim=1), STIFFNESS
    ),
    "vmap of vjp": lambda run: torch.func.vmap(lambda c: torch.func.vjp(lambda x: run(x, V, STIFFNESS)[0], X)[1](c))(
        numbers(4, 2, 3)
    ),
}


@pytest.mark.parametrize("way", [{}, {"inverse": leapfrog_back}], ids=["snapshots", "inverse"])
@pytest.mark.parametrize("transform", TRANSFORMS, ids=str)
def test_under_torch_func_it_is_what_the_loop_is(transform, way):
    found = TRANSFORMS[transform](functools.partial(simulated, **way))
    assert same(found, TRANSFORMS[transform](unrolled), tolerance=1e-11)


def test_forward_mode_is_the_transpose_of_the_backward():
    direction = numbers(3, 3, seed=7)
    ours = leaves()
    states = simulated(*ours, outputs="all")
    cotangent = numbers(*states[0].shape, seed=8)
    (gradient,) = torch.autograd.grad(states[0], ours[2], cotangent)
    with forward_ad.dual_level():
        dual = simulated(X, V, forward_ad.make_dual(STIFFNESS, direction), outputs="all")[0]
        tangent = forward_ad.unpack_dual(dual).tangent
    assert same((cotangent * tangent).sum(), (gradient * direction).sum())


def test_in_a_compiled_network_it_breaks_the_graph_and_a_full_graph_is_refused():
    law = Law()

    def network(x):
        return integrate(law, 2 * x, steps=3) + 1

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, about its own
        with pytest.raises(Exception, match=r"marked as skipped|disable"):
            torch.compile(network, backend="eager", fullgraph=True)(X)
        torch.compiler.reset()
        found = torch.compile(network, backend="eager")(X)
    assert same(*(torch.autograd.grad(y.sum(), list(law.parameters())) for y in (found, network(X))))


def test_the_module_survives_copies_and_pickles():
    layer = Simulation(Law(), steps=4, outputs=[2, 4])
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(twin(X), layer(X))
