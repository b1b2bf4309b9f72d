"""A reversible network has plain autograd's gradient and keeps no activations; where it can't, it raises."""

from __future__ import annotations

import copy
import pickle
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.func import functional_call
from torch.nn.utils import parametrizations, parametrize
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

import gradwright as gw
from gradwright.errors import GradientError, UsageError
from gradwright.functions.flow.reversible import (
    Additive,
    Affine,
    Coupling,
    ReversibleBlock,
    ReversibleSequence,
    block,
    replay,
    reversible,
)
from gradwright.functions.flow.reversible.engine import ReversibleFunction
from gradwright.functions.flow.reversible.passage import Plan

WIDTH = 4


def mlp(*more: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 6), nn.Tanh(), nn.Linear(6, WIDTH), *more)


class Pair(nn.Module):
    """(s, t) for the affine law, s bounded as in RealNVP."""

    def __init__(self) -> None:
        super().__init__()
        self.both = nn.Linear(WIDTH, 2 * WIDTH)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        s, t = self.both(x).chunk(2, dim=-1)
        return s.tanh(), t


def network(make: Callable[[], nn.Module] = mlp, depth: int = 3, **options: Any) -> ReversibleSequence:
    return ReversibleSequence([ReversibleBlock(make(), make(), **options) for _ in range(depth)]).double()


def halves(rows: int = 5, *, grad: bool = True) -> list[Tensor]:
    return [torch.randn(rows, WIDTH, dtype=torch.float64, requires_grad=grad) for _ in range(2)]


def unrolled(blocks: ReversibleSequence, x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor]:
    """RevNet, eq. 6, and RealNVP, eq. 4 and 5, as they are printed: the oracle."""
    for each in blocks.blocks:
        for number, net in enumerate((each.f, each.g)):
            if net is None:
                continue
            x, made = (x1, net(x2)) if number == 0 else (x2, net(x1))
            y = x * made[0].exp() + made[1] if isinstance(made, tuple) else x + made
            x1, x2 = (y, x2) if number == 0 else (x1, y)
    return x1, x2


def loss(y1: Tensor, y2: Tensor) -> Tensor:
    return (y1.sin() * y2).sum() + (y2**2).sum()


def gradients(run: Callable[..., Any], module: nn.Module, inputs: list[Tensor], seed: int = 3) -> list[Tensor | None]:
    """Of the inputs and of all parameters, by ``backward``."""
    module.zero_grad()
    fresh = [x.detach().clone().requires_grad_(x.requires_grad) for x in inputs]
    torch.manual_seed(seed)
    loss(*run(*fresh)).backward()
    return [None if x.grad is None else x.grad.clone() for x in (*fresh, *module.parameters())]


def assert_same(found: list[Tensor | None], expected: list[Tensor | None], tolerance: float = 1e-11) -> None:
    assert [one is None for one in found] == [two is None for two in expected]
    for one, two in zip(found, expected, strict=True):
        if one is not None:
            torch.testing.assert_close(one, two, rtol=tolerance, atol=tolerance)


def assert_like_autograd(module: ReversibleSequence, inputs: list[Tensor] | None = None) -> None:
    inputs = halves() if inputs is None else inputs
    twin = copy.deepcopy(module)
    found = gradients(module, module, inputs)
    assert_same(found, gradients(lambda *x: unrolled(twin, *x), twin, inputs))
    for (name, one), two in zip(module.named_buffers(), twin.buffers(), strict=True):
        assert torch.equal(one, two), name


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


# --- the gradient is autograd's --------------------------------------------------------------------------------------


class Whole(nn.Module):
    """A reversible network inside f."""

    def __init__(self, inner: ReversibleSequence) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return sum(self.inner(x, x.sin()))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.lstm(x)[0]


class Drifting(nn.Module):
    """Its output hangs on a buffer, which every call exchanges for another one."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("level", torch.ones(1, 1))

    def forward(self, x: Tensor) -> Tensor:
        self.level = self.level * 0.9 + 0.01 * x.detach().abs().mean()
        return self.line(x).tanh() * self.level


def sharing(part: nn.Module) -> ReversibleSequence:
    return network(lambda: mlp(part))


def frozen(module: ReversibleSequence) -> ReversibleSequence:
    for later in module.blocks[1:]:
        later.f.requires_grad_(False)
    return module


NETWORKS: dict[str, Callable[[], ReversibleSequence]] = {
    "additive": network,
    "affine": lambda: network(Pair, coupling="affine"),
    "deep": lambda: network(depth=40),
    "one half only": lambda: ReversibleSequence([ReversibleBlock(mlp()), ReversibleBlock(mlp())]).double(),
    "no parameters": lambda: network(nn.Tanh),
    "the identity": lambda: network(nn.Identity),
    "a term that broadcasts": lambda: network(lambda: nn.Sequential(nn.Linear(WIDTH, 1))),
    "nested": lambda: network(lambda: Whole(network(depth=2)), depth=2),
    "lstm": lambda: network(Recurrent, depth=2),
    "dropout": lambda: network(lambda: mlp(nn.Dropout(0.4))),
    "batch norm": lambda: network(lambda: mlp(nn.BatchNorm1d(WIDTH))),
    "batch norm and dropout": lambda: network(lambda: mlp(nn.BatchNorm1d(WIDTH), nn.Dropout(0.4))),
    "spectral norm": lambda: network(lambda: parametrizations.spectral_norm(nn.Linear(WIDTH, WIDTH))),
    "buffers that are exchanged": lambda: network(Drifting),
    "one batch norm everywhere": lambda: sharing(nn.BatchNorm1d(WIDTH)),
    "one block used three times": lambda: ReversibleSequence([ReversibleBlock(mlp(), mlp())] * 3).double(),
    "f is g": lambda: ReversibleSequence([ReversibleBlock(shared := mlp(), shared)] * 2).double(),
    "frozen": lambda: frozen(network()),
    "evaluated": lambda: network(lambda: mlp(nn.BatchNorm1d(WIDTH), nn.Dropout(0.4))).eval(),
}


@pytest.mark.parametrize("make", NETWORKS.values(), ids=list(NETWORKS))
def test_gradients_and_buffers_are_those_of_plain_autograd(make):
    assert_like_autograd(make())


@pytest.mark.parametrize("wanted", [(True, False), (False, True), (False, False)], ids=["x1", "x2", "none"])
def test_inputs_that_need_no_gradient_get_none(wanted):
    assert_like_autograd(
        network(), [x.requires_grad_(want) for x, want in zip(halves(grad=False), wanted, strict=True)]
    )


@pytest.mark.parametrize("used", [0, 1])
def test_one_output_used_leaves_what_is_not_on_its_way_without_a_gradient(used):
    module = network()
    x = halves()
    module(*x)[used].pow(2).sum().backward()
    found = [value.grad for value in (*x, *module.parameters())]
    twin, z = copy.deepcopy(module), [value.detach().requires_grad_() for value in x]
    twin.zero_grad()
    unrolled(twin, *z)[used].pow(2).sum().backward()
    assert_same(found, [value.grad for value in (*z, *twin.parameters())])
    assert (used == 0) == any(gradient is None for gradient in found)


def test_complex_halves():
    blocks = [ReversibleBlock(torch.sin, torch.cos)] * 2
    x = [torch.randn(3, dtype=torch.complex128, requires_grad=True) for _ in range(2)]
    assert gradcheck(lambda *x: reversible(*x, blocks), x)


def test_halves_of_different_shapes():
    blocks = ReversibleSequence([ReversibleBlock(nn.Linear(2, WIDTH), nn.Linear(WIDTH, 2))] * 2).double()
    x = [halves()[0], torch.randn(5, 2, dtype=torch.float64, requires_grad=True)]
    assert gradcheck(lambda *x: blocks(*x), x)


def test_empty_halves_and_no_blocks():
    assert_like_autograd(network(), halves(0))
    x = halves()
    assert ReversibleSequence([])(*x)[1] is x[1]


def test_parameters_by_autograd_grad_and_by_functional_call():
    module, x = network(), halves(grad=False)
    parameters = dict(module.named_parameters())
    found = torch.autograd.grad(loss(*module(*x)), list(parameters.values()))
    assert_same(list(found), gradients(lambda *x: unrolled(module, *x), module, x)[2:])
    others = {name: value.detach().clone().requires_grad_() for name, value in parameters.items()}
    module.zero_grad()
    loss(*functional_call(module, others, tuple(x))).backward()
    assert_same([value.grad for value in others.values()], list(found))
    assert all(value.grad is None for value in parameters.values())


def test_the_function_is_one_of_the_parameters_that_it_is_handed():
    module, x = network(lambda: mlp(nn.BatchNorm1d(WIDTH), nn.Dropout(0.4))), halves()
    twin = copy.deepcopy(module)
    plan = Plan.of([step for each in module.blocks for step in each.steps()], "full", None, *x)
    others = [torch.randn_like(parameter).requires_grad_() for parameter in plan.learnt]
    torch.manual_seed(3)
    loss(*ReversibleFunction.apply(plan, *x, *others)).backward()
    with torch.no_grad():
        for parameter, other in zip(twin.parameters(), others, strict=True):
            parameter.copy_(other)
    expected = gradients(lambda *x: unrolled(twin, *x), twin, x)
    assert_same([tensor.grad for tensor in (*x, *others)], expected)
    assert all(parameter.grad is None for parameter in module.parameters())


def test_the_same_graph_backwards_twice():
    module, x = network(lambda: mlp(nn.Dropout(0.4), nn.BatchNorm1d(WIDTH))), halves()
    result = loss(*module(*x))
    first = torch.autograd.grad(result, [*x, *module.parameters()], retain_graph=True)
    again = torch.autograd.grad(result, [*x, *module.parameters()])
    assert all(torch.equal(one, two) for one, two in zip(first, again, strict=True))


def test_one_tensor_as_both_halves():
    blocks, x = network().blocks, halves(2)[:1]
    assert gradcheck(lambda x: reversible(x, x, blocks), x)


@pytest.mark.parametrize("more", [(), (nn.Dropout(0.4),)], ids=["plain", "dropout"])
def test_a_checkpoint_around_it_changes_nothing(more):
    module, x = network(lambda: mlp(*more)), halves()
    found = gradients(lambda *x: checkpoint(module, *x, use_reentrant=False), module, x)
    assert_same(found, gradients(module, module, x))


# --- chance, autocast, hooks -----------------------------------------------------------------------------------------


def test_the_backward_leaves_the_generator_where_it_was():
    result = loss(*network(lambda: mlp(nn.Dropout(0.4)))(*halves()))
    torch.rand(3)
    before = torch.get_rng_state()
    result.backward()
    assert torch.equal(before, torch.get_rng_state())


def test_a_backward_hook_that_draws_moves_the_generator_as_ever():
    module = network(lambda: mlp(nn.Dropout(0.4)))
    module.blocks[0].f[0].register_full_backward_hook(lambda *_: torch.rand(1) and None)
    result = loss(*module(*halves()))
    before = torch.get_rng_state()
    result.backward()
    assert not torch.equal(before, torch.get_rng_state())


def test_autocast_of_the_forward_is_that_of_the_backward():
    module, x = network().float(), [x.detach().float().requires_grad_() for x in halves()]

    def under(run: Callable[..., Any]) -> Callable[..., Any]:
        def call(*x: Tensor) -> Any:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return run(*x)

        return call

    expected = gradients(under(lambda *x: unrolled(module, *x)), module, x)
    assert_same(gradients(under(module), module, x), expected, 1e-2)
    plain = gradients(module, module, x)
    assert max(float((a - b).abs().max()) for a, b in zip(plain, expected, strict=True)) > 1e-3  # it does matter


def test_autocast_does_not_keep_a_cast_weight_that_has_no_graph():
    module, x = network().float(), [x.detach().float() for x in halves()]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        module(*x)
        module.blocks[0].f(x[0]).sum().backward()
    assert module.blocks[0].f[0].weight.grad is not None


def test_autocast_around_the_backward_alone_does_what_it_does_to_plain_autograd():
    module, x = network().float(), [x.detach().float().requires_grad_() for x in halves()]
    results = [loss(*run(*x)) for run in (module, lambda *x: unrolled(module, *x))]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, expected = (torch.autograd.grad(result, x) for result in results)
    assert_same(list(found), list(expected), 1e-5)


def test_hooks_run_as_often_as_they_should():
    module = network(depth=2)
    calls = dict.fromkeys(("forward of f", "backward of f", "parameter", "accumulated", "whole"), 0)

    def count(name: str) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            calls[name] += 1

        return hook

    f = module.blocks[0].f
    f.register_forward_hook(count("forward of f"))
    f[0].register_full_backward_hook(count("backward of f"))
    f[0].weight.register_hook(count("parameter"))
    f[0].weight.register_post_accumulate_grad_hook(count("accumulated"))
    module.register_full_backward_hook(count("whole"))
    loss(*module(*halves())).backward()
    assert calls == {"forward of f": 2, "backward of f": 1, "parameter": 1, "accumulated": 1, "whole": 1}


def test_a_parameter_hook_that_halves_the_gradient_halves_it_once():
    module, x = network(), halves()
    expected = gradients(module, module, x)[2]
    next(module.parameters()).register_hook(lambda gradient: gradient / 2)
    torch.testing.assert_close(gradients(module, module, x)[2], expected / 2)


def test_data_parallel_training_sees_every_gradient(tmp_path):
    module, x = network(), halves()
    expected = gradients(module, module, x)
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        parallel = nn.parallel.DistributedDataParallel(module)
        assert_same(gradients(parallel, module, x), expected)
        buckets: list[int] = []

        def communicated(_, bucket):  # torch reads the annotations, as types
            buckets.append(bucket.buffer().numel())
            done: torch.futures.Future[Tensor] = torch.futures.Future()
            done.set_result(bucket.buffer())
            return done

        parallel.register_comm_hook(None, communicated)
        assert_same(gradients(parallel, module, x), expected)
        assert sum(buckets) == sum(parameter.numel() for parameter in module.parameters())
    finally:
        torch.distributed.destroy_process_group()


def test_two_threads_on_one_network():
    module, x = network(lambda: mlp(nn.Dropout(0.0)), depth=8), halves(64, grad=False)
    expected = torch.autograd.grad(loss(*module(*x)), list(module.parameters()))
    found: list[Any] = []

    def work() -> None:
        for _ in range(5):
            found.append(torch.autograd.grad(loss(*module(*x)), list(module.parameters())))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(found) == 10
    for gradients_found in found:
        assert_same(list(gradients_found), list(expected))


# --- other ways to differentiate -------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [network, NETWORKS["affine"], NETWORKS["one block used three times"]],
                         ids=["additive", "affine", "shared"])  # fmt: skip
def test_the_second_derivative_is_autograds(make):
    module, x = make(), halves()
    wanted = [*x, *module.parameters()]

    def penalty(run: Callable[..., Any]) -> list[Tensor]:
        first = torch.autograd.grad(loss(*run(*x)), wanted, create_graph=True)
        return list(torch.autograd.grad(sum(gradient.pow(2).sum() for gradient in first), wanted))

    assert_same(penalty(module), penalty(lambda *x: unrolled(module, *x)), 1e-9)


def test_gradgradcheck():
    module = network(depth=2)
    assert gradgradcheck(lambda *x: module(*x), halves(2))


def test_third_derivative():
    blocks, x = [ReversibleBlock(torch.sin, torch.sin)] * 2, torch.tensor(0.3, dtype=torch.float64, requires_grad=True)

    def third(run: Callable[..., Any]) -> Tensor:
        result = sum(run(x, x * 0.5))
        for _ in range(3):
            (result,) = torch.autograd.grad(result, x, create_graph=True)
        return result

    sequence = ReversibleSequence(blocks)
    torch.testing.assert_close(third(sequence), third(lambda *x: unrolled(sequence, *x)))


def test_batched_cotangents():
    module, x = network(), halves()
    y = module(*x)
    batch = [torch.randn(7, *half.shape, dtype=torch.float64) for half in y]
    found = torch.autograd.grad(y, x, batch, is_grads_batched=True, retain_graph=True)
    for number in range(7):
        alone = torch.autograd.grad(y, x, [b[number] for b in batch], retain_graph=True)
        assert_same([gradient[number] for gradient in found], list(alone))


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
def test_cotangents_with_a_tangent():
    module, x = network(), halves()
    y = module(*x)
    cotangents, tangents = ([torch.randn_like(half) for half in y] for _ in range(2))
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(c, t) for c, t in zip(cotangents, tangents, strict=True)]
        found = [forward_ad.unpack_dual(g) for g in torch.autograd.grad(y, x, duals, retain_graph=True)]
    assert_same([g.tangent for g in found], list(torch.autograd.grad(y, x, tangents)))


def test_batched_cotangents_with_dropout_are_right_or_refused():
    y = network(lambda: mlp(nn.Dropout(0.4)))(*(x := halves()))
    with pytest.raises(RuntimeError, match="random"):
        torch.autograd.grad(y, x, [torch.randn(3, *half.shape).double() for half in y], is_grads_batched=True)


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
def test_torch_func_and_vmap_and_forward_mode_run_the_blocks_as_plain_torch():
    module, (x1, x2) = network(), halves(grad=False)
    parameters = {name: value.detach() for name, value in module.named_parameters()}

    def of(parameters: Any, x1: Tensor, x2: Tensor) -> Tensor:
        return loss(*functional_call(module, parameters, (x1, x2)))

    plain = gradients(lambda *x: unrolled(module, *x), module, [x1, x2])[2:]
    assert_same(list(torch.func.grad(of)(parameters, x1, x2).values()), plain)
    by_sample = torch.func.vmap(torch.func.grad(of), in_dims=(None, 0, 0))(parameters, x1, x2)
    assert_same([gradient.sum(0) for gradient in by_sample.values()], plain)
    expected = torch.func.jvp(lambda x: unrolled(module, x, x2), (x1,), (x2,))[1]
    with forward_ad.dual_level():
        tangents = [forward_ad.unpack_dual(y).tangent for y in module(forward_ad.make_dual(x1, x2), x2)]
    assert_same(tangents, list(expected))


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_torch_compile_leaves_it_out_or_raises():
    module, x = network(), halves()
    expected = gradients(module, module, x)
    compiled = torch.compile(lambda x1, x2: module(x1 * 1, x2), backend="eager")
    assert_same(gradients(compiled, module, x), expected)
    torch._dynamo.reset()
    with pytest.raises(Exception, match="function marked as skipped"):
        torch.compile(lambda x1, x2: module(x1, x2), backend="eager", fullgraph=True)(*x)
    torch._dynamo.reset()


# --- memory ----------------------------------------------------------------------------------------------------------


class Alive(TorchDispatchMode):
    """``bytes``: of the storages made inside that are alive; views of earlier ones don't count."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {storage._cdata for storage in storages((args, kwargs))}
        result = func(*args, **(kwargs or {}))
        for storage in storages(result):
            if storage._cdata not in self.sizes and storage._cdata not in given:
                self.sizes[storage._cdata] = storage.nbytes()
                weakref.finalize(storage, self.sizes.pop, storage._cdata, None)
        return result

    @property
    def bytes(self) -> int:
        return sum(self.sizes.values())


def storages(values: Any) -> list[torch.UntypedStorage]:
    return [value.untyped_storage() for value in tree_leaves(values) if isinstance(value, Tensor)]


def kept(run: Callable[..., Any], x: list[Tensor]) -> int:
    with Alive() as alive:
        outputs = run(*x)
        return alive.bytes - sum(y.untyped_storage().nbytes() for y in outputs)


@pytest.mark.parametrize("more", [(), (nn.Dropout(0.4),), (nn.BatchNorm1d(WIDTH),)], ids=["plain", "drop", "norm"])
def test_memory_does_not_grow_with_depth(more):
    x = halves(4096)
    shallow, deep = network(lambda: mlp(*more), depth=2), network(lambda: mlp(*more), depth=20)
    by_step = (kept(deep, x) - kept(shallow, x)) / 36
    assert by_step <= 64 * 8 + 5056 * bool(more) + 1024
    as_plain = (kept(lambda *x: unrolled(deep, *x), x) - kept(lambda *x: unrolled(shallow, *x), x)) / 36
    assert as_plain > 4096 * WIDTH * 8


@pytest.mark.parametrize("how", [torch.no_grad, torch.inference_mode], ids=["no_grad", "inference_mode"])
def test_without_gradients_f_and_g_are_called_and_no_more(how, monkeypatch):
    module, x = network(lambda: mlp(nn.BatchNorm1d(WIDTH))), halves(grad=False)
    monkeypatch.setattr(block, "_recorded", None)
    twin = copy.deepcopy(module)
    with how():
        found, expected = module(*x), unrolled(twin, *x)
    assert all(torch.equal(one, two) for one, two in zip(found, expected, strict=True))


def test_nothing_that_requires_a_gradient_is_plain_torch():
    assert network().requires_grad_(False)(*halves(grad=False))[0].grad_fn is None


# --- what would be wrong is refused ----------------------------------------------------------------------------------


class Counting(nn.Module):
    """Gives something else in every call."""

    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.calls


class WrongWayBack(Additive):
    def invert(self, y: Tensor, *terms: Tensor) -> Tensor:
        return y - 1.01 * terms[0]


class WrongInOnePlace(Additive):
    def invert(self, y: Tensor, *terms: Tensor) -> Tensor:
        x = y - terms[0]
        return x.flatten().index_fill(0, torch.tensor([1]), 0.0).view_as(x)


class WrongGradient(Affine):
    """Its inverse is right, its vjp forgets that t̄ is there."""

    def vjp(self, x: Tensor, terms: tuple[Tensor, ...], cotangent: Tensor) -> Any:
        of_x, (of_s, _) = super().vjp(x, terms, cotangent)
        return of_x, (of_s, None)


class Chance(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(0)

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rand(x.shape, generator=self.generator)


class Crushing(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.full_like(x, -60.0), x.exp()


FAULTS: dict[str, Callable[[], ReversibleSequence]] = {
    "a network that changes": lambda: network(Counting),
    "a wrong inverse": lambda: network(coupling=WrongWayBack()),
    "chance of Python's own": lambda: network(Chance),
    "an inverse that divides by nearly nothing": lambda: network(Crushing, coupling="affine"),
}


@pytest.mark.parametrize("make", FAULTS.values(), ids=list(FAULTS))
def test_a_reconstruction_that_is_off_is_an_error_that_names_the_step(make):
    module, x = make(), halves()
    with pytest.raises(GradientError, match=r"lost its activations.*(\n.*)*where  [fg] of block \d"):
        loss(*module(*x)).backward()
    assert all(value.grad is None for value in (*x, *module.parameters()))


def test_without_the_comparison_the_gradient_would_be_wrong():
    module, x = network(coupling=WrongWayBack()), halves()
    module.check_inverse = "off"
    found, expected = gradients(module, module, x), gradients(lambda *x: unrolled(module, *x), module, x)
    assert max(float((a - b).abs().max()) for a, b in zip(found, expected, strict=True)) > 1e-3


def test_the_step_that_is_named_is_the_faulty_one():
    blocks = [ReversibleBlock(mlp(), mlp()) for _ in range(5)]
    blocks[2].g = Counting()
    with pytest.raises(GradientError, match="where  g of block 2\n  why    g of block 2 gives something else"):
        loss(*ReversibleSequence(blocks).double()(*halves())).backward()


def test_the_full_comparison_sees_a_fault_in_one_entry():
    x = halves(400)
    blocks = [ReversibleBlock(mlp().double(), coupling=WrongInOnePlace())]
    loss(*reversible(*x, blocks)).backward()
    with pytest.raises(GradientError):
        loss(*reversible(*x, blocks, check_inverse="full")).backward()


def test_a_tolerance_of_ones_own():
    blocks, x = [ReversibleBlock(mlp(), mlp()).double()], halves()
    loss(*reversible(*x, blocks, tolerance=1e-14)).backward()
    with pytest.raises(GradientError, match="1e-20 is allowed"):
        loss(*reversible(*(value * 3 for value in x), blocks, tolerance=1e-20)).backward()


def test_nan_in_both_halves_goes_through_as_in_plain_torch():
    module, x = network(), halves()
    with torch.no_grad():
        x[0][1] = x[1][1] = torch.nan
    found = gradients(module, module, x)
    assert all(bool(gradient.isnan().any()) for gradient in found)
    assert not found[0][0].isnan().any()


def test_an_activation_that_overflowed_is_an_error():
    blocks = [ReversibleBlock(lambda x: x * 1e300), ReversibleBlock(lambda x: x * 1e300)]
    x = [x * 1e100 for x in halves()]
    with pytest.raises(GradientError, match="finite entries became inf or NaN"):
        reversible(*x, blocks)[0].sum().backward()


def test_check_finds_a_law_whose_vjp_is_wrong():
    report = gw.check(network(Pair, depth=1, coupling=WrongGradient()), *halves(2), level="quick")
    assert {finding.code for finding in report.findings} == {"GW101"}


@pytest.mark.parametrize("law", ["additive", "affine"])
def test_check_passes_at_level_standard(law):
    report = gw.check(network(mlp if law == "additive" else Pair, depth=2, coupling=law), *halves(2))
    assert report.ok, report
    assert {"second order", "parity", "undefined cotangents", "leaks"} <= {done.check for done in report.done}


def test_an_input_changed_in_place_inside_f_is_refused():
    with pytest.raises(UsageError, match="f of block 1, or its law, changes x1 or x2 in place"):
        ReversibleSequence([ReversibleBlock(mlp()), ReversibleBlock(nn.ReLU(inplace=True))]).double()(*halves())


def test_a_law_that_works_in_place_is_refused():
    class InPlace(Additive):
        def apply(self, x: Tensor, *terms: Tensor) -> Tensor:
            return x.add_(terms[0])

    with pytest.raises(UsageError, match="or its law, changes x1 or x2 in place"):
        reversible(*halves(grad=False), [ReversibleBlock(mlp().double(), coupling=InPlace())])


def test_cached_parametrizations_are_refused_forward_and_backward():
    module, x = NETWORKS["spectral norm"](), halves()
    with parametrize.cached(), pytest.raises(UsageError, match=r"parametrize.cached"):
        module(*x)
    result = loss(*module(*x))
    with parametrize.cached(), pytest.raises(UsageError, match=r"parametrize.cached"):
        result.backward()


def test_tensors_changed_in_place_before_the_backward_are_refused():
    for change in ("output", "parameter", "buffer", "frozen"):
        module = frozen(network(lambda: mlp(nn.BatchNorm1d(WIDTH))).eval())
        y = module(*halves())
        changed = {"output": y[0], "parameter": next(module.parameters()), "buffer": next(module.buffers()),
                   "frozen": next(module.blocks[1].f.parameters())}[change]  # fmt: skip
        result = loss(*y)
        with torch.no_grad():
            changed.add_(1.0)
        with pytest.raises(RuntimeError, match="inplace operation"):
            result.backward()


def test_another_mode_in_the_backward_is_refused():
    module = network(lambda: mlp(nn.Dropout(0.5)))
    result = loss(*module(*halves()))
    module.eval()
    with pytest.raises(UsageError, match="in train mode in the forward and is in eval mode"):
        result.backward()


def test_a_tensor_that_would_lose_its_gradient_is_refused():
    hidden = torch.ones(WIDTH, dtype=torch.float64, requires_grad=True)
    derived, held = hidden * 2, nn.Linear(WIDTH, WIDTH).double()
    for f in (lambda x: x * hidden, lambda x: x + derived, lambda x: hidden, lambda x: held(x)):
        with pytest.raises(UsageError, match="neither its input nor one of its parameters"):
            loss(*reversible(*halves(), [ReversibleBlock(f)])).backward()
        with torch.no_grad():
            reversible(*halves(), [ReversibleBlock(f)])


def late() -> ReversibleBlock:
    later = mlp().double()

    def f(x: Tensor) -> Tensor:
        later.register_parameter("gain", nn.Parameter(torch.ones(1)))
        return x

    return ReversibleBlock(f, later)


MISUSES: dict[str, tuple[Callable[[], Any], str]] = {
    "a shape that grows": (lambda: ReversibleBlock(lambda x: x.unsqueeze(0))(*halves()), r"float64\[1, 5, 4\] of x1"),
    "a dtype that grows": (lambda: ReversibleBlock(torch.Tensor.double)(*map(torch.Tensor.float, halves())), "float64"),
    "too few terms": (lambda: ReversibleBlock(torch.sin, coupling="affine")(*halves()), "takes 2 tensor"),
    "no tensor": (lambda: ReversibleBlock(lambda x: 3)(*halves()), "returns .int."),
    "another law": (lambda: ReversibleBlock(torch.sin, coupling="rotation"), "'additive', 'affine'"),
    "no network": (lambda: ReversibleBlock(None), "f is a NoneType"),
    "no block": (lambda: ReversibleSequence([nn.Linear(2, 2)]), "block 0 is a Linear"),
    "other comparisons": (lambda: ReversibleSequence([], check_inverse="some"), "'sampled', 'full', 'off'"),
    "a tolerance of nothing": (lambda: ReversibleSequence([], tolerance=0), "positive"),
    "one tensor": (lambda: network()(halves()[0], None), "two floating-point tensors"),
    "whole numbers": (lambda: network()(torch.ones(2, 4).long(), torch.ones(2, 4).long()), "floating-point"),
    "two dtypes": (lambda: network()(halves()[0], halves()[0].float()), "float64 on cpu and torch.float32"),
    "lazy parameters": (lambda: ReversibleBlock(nn.LazyLinear(WIDTH))(*halves()), "lazy"),
    "a parameter made on the way": (lambda: late()(*halves()), "parameter gain while it ran"),
    "hooks on a block": (lambda: hooked()(*halves()), "register them on its f and g"),
    "a law without apply": (lambda: ReversibleBlock(torch.sin, coupling=Coupling())(*halves()), "has no apply"),
}


def hooked() -> ReversibleSequence:
    module = network()
    module.blocks[0].register_forward_hook(lambda *_: None)
    return module


@pytest.mark.parametrize(("misuse", "said"), MISUSES.values(), ids=list(MISUSES))
def test_misuse_is_told(misuse, said):
    with pytest.raises((UsageError, NotImplementedError), match=said):
        misuse()


def test_a_thread_that_never_leaves_f_is_an_error_not_a_deadlock(monkeypatch):
    monkeypatch.setattr(replay, "PATIENCE_SECONDS", 0.05)
    inside, done = threading.Event(), threading.Event()

    def f(x: Tensor) -> Tensor:
        inside.set()
        done.wait(10)
        return x

    thread = threading.Thread(target=lambda: ReversibleBlock(f)(*halves()))
    thread.start()
    inside.wait(10)
    try:
        with pytest.raises(UsageError, match="another thread that is inside f or g"):
            network()(*halves())
    finally:
        done.set()
        thread.join(10)


# --- the inverse -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make", [network, NETWORKS["affine"], NETWORKS["one half only"]], ids=["additive", "affine", "half"]
)
def test_the_inverse_gives_the_inputs_back_and_has_a_gradient(make):
    module, x = make(), halves()
    assert_same(list(module.inverse(*module(*x))), x, 1e-10)
    assert_same(list(module.blocks[0].inverse(*module.blocks[0](*x))), x, 1e-10)
    assert gradcheck(lambda *y: module.inverse(*y), halves(2))


def test_rounding_errors_grow_with_depth_and_are_told():
    torch.manual_seed(0)
    module = network(depth=60).float()
    errors = module.inverse_errors(*(x.detach().float() for x in halves()))
    assert len(errors) == 60
    assert errors[-1] < 1e-6
    assert errors[-1] < errors[0] < 1e-3
    assert max(module.double().inverse_errors(*(x.detach() for x in halves()))) < 1e-9


def test_to_measure_the_errors_changes_nothing():
    module = network(lambda: mlp(nn.BatchNorm1d(WIDTH), nn.Dropout(0.4)))
    x, before = halves(), copy.deepcopy(module.state_dict())
    state = torch.get_rng_state()
    errors = module.inverse_errors(*x)
    assert 0 < max(errors) < 1e-12
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_the_errors_show_a_fault_where_it_is():
    blocks = [ReversibleBlock(mlp(), mlp()) for _ in range(4)]
    blocks[1].f = Counting()
    errors = ReversibleSequence(blocks).double().inverse_errors(*halves())
    assert [error > 1e-3 for error in errors] == [True, True, False, False]


# --- a module like any other -----------------------------------------------------------------------------------------


def test_copies_pickles_and_state_dicts():
    module, x = network(Pair, coupling="affine"), halves()
    expected = gradients(module, module, x)
    other = network(Pair, coupling="affine")
    other.load_state_dict(module.state_dict())
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), other):
        assert_same(gradients(twin, twin, x), expected)
    assert "coupling=Affine()" in repr(module)
    assert "blocks.0.f.both.weight" in module.state_dict()


def test_a_module_is_copied_and_pickled_after_a_backward_too():
    module = network(lambda: mlp(nn.BatchNorm1d(WIDTH)))
    loss(*module(*halves())).backward()
    assert_like_autograd(copy.deepcopy(module))
    assert_like_autograd(pickle.loads(pickle.dumps(module)))
    assert all(isinstance(parameter, nn.Parameter) for parameter in module.parameters())


def test_it_trains_as_the_unrolled_network_does():
    module = network(lambda: mlp(nn.BatchNorm1d(WIDTH), nn.Dropout(0.2)))
    twin, x = copy.deepcopy(module), halves(32, grad=False)
    curves = []
    for net, run in ((module, module), (twin, lambda *x: unrolled(twin, *x))):
        torch.manual_seed(5)
        optimizer, curve = torch.optim.Adam(net.parameters(), 1e-2), []
        for _ in range(10):
            optimizer.zero_grad()
            value = sum((y - x_half.flip(0)).pow(2).mean() for y, x_half in zip(run(*x), x, strict=True))
            value.backward()
            optimizer.step()
            curve.append(float(value.detach()))
        curves.append(curve)
    assert curves[0] == pytest.approx(curves[1], rel=1e-9)
    assert curves[0][-1] < curves[0][0]
