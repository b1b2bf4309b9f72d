"""Where a reversible network can't have the right gradient, it raises."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.functions.flow.reversible.networks import (
    NETWORKS,
    WIDTH,
    Counting,
    Pair,
    frozen,
    gradients,
    halves,
    loss,
    mlp,
    network,
    unrolled,
)
from torch import Tensor, nn
from torch.nn.utils import parametrize

import gradwright as gw
from gradwright.errors import GradientError, UsageError
from gradwright.functions.flow.reversible import (
    Additive,
    Affine,
    Coupling,
    ReversibleBlock,
    ReversibleSequence,
    replay,
    reversible,
)


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
    "no block": (lambda: ReversibleSequence([nn.Linear(2, 2)]), "block 0 is a Linear"),  # type: ignore[list-item]
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
        done.wait(60)
        return x

    thread = threading.Thread(target=lambda: ReversibleBlock(f)(*halves()))
    thread.start()
    inside.wait(60)
    try:
        with pytest.raises(UsageError, match="another thread that is inside f or g"):
            network()(*halves())
    finally:
        done.set()
        thread.join(60)
