"""On a bound and at a tie an elementwise formula has torch's gradient: of the torch that is there, on every back end.

Where torch's versions differ, both conventions are planted too (``formula.test_rules`` has all their numbers).
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import gradwright as gw
from gradwright.ground.torch_versions import ties
from gradwright.ground.torch_versions.ties import Ties
from gradwright.kernels.code.torch_code import torch_source
from gradwright.kernels.code.triton_code import triton_source
from gradwright.kernels.elementwise import Elementwise, elementwise
from gradwright.kernels.formula.program import Program
from gradwright.kernels.formula.reading import read
from gradwright.kernels.machine import compiling

pytestmark = pytest.mark.filterwarnings(
    "ignore:<class 'torch.autograd.function.Function'> should not:DeprecationWarning"
)

Plain = Callable[..., Tensor]

# Formulas, and the same in torch.
OF_ONE: dict[str, Plain] = {
    "clamp(x, 0, 1)": lambda x: x.clamp(0, 1),
    "clamp(x, min=0)": lambda x: x.clamp(min=0),
    "clamp(x, max=1)": lambda x: x.clamp_max(1),
    "clamp(x, 1, 0)": lambda x: x.clamp(1, 0),
    "clamp(x, 1, 1)": lambda x: x.clamp(1, 1),
    "x * clamp(x, -1, 1)": lambda x: x * x.clamp(-1, 1),
    "clamp(x * x, 0, 1)": lambda x: (x * x).clip(0, 1),
    "min(max(x, 0), 1)": lambda x: torch.minimum(torch.maximum(x, torch.zeros_like(x)), torch.ones_like(x)),
    "relu(x)": torch.relu,
    "abs(x)": torch.abs,
    "where(x > 0 and x < 6, x, where(x > 3, 6, 0))": F.relu6,
    "where(x > -1 and x < 1, x, where(x > 0, 1, -1))": F.hardtanh,
}
OF_TWO: dict[str, Plain] = {
    "clamp(x, min=y)": lambda x, y: x.clamp(min=y),
    "clamp(x, max=y)": lambda x, y: torch.clamp_max(x, y),
    "clamp(x, y, 1)": lambda x, y: x.clamp(y, torch.ones_like(y)),
    "clamp(x, 0, y)": lambda x, y: x.clamp(torch.zeros_like(y), y),
    "x * clamp(y, min=x)": lambda x, y: x * y.clamp(min=x),
    "max(x, y)": torch.maximum,
    "min(x, y)": torch.minimum,
}
NUMBERS = (-6.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 6.0)
INPUTS = {1: [torch.tensor(NUMBERS)], 2: list(torch.tensor(list(itertools.product(NUMBERS, repeat=2))).unbind(1))}


def derivatives(function: Plain, inputs: list[Tensor]) -> list[Tensor]:
    """The gradients, and the Hessian-vector product with (1, 2)."""
    leaves = [each.clone().requires_grad_() for each in inputs]
    first = torch.autograd.grad(function(*leaves).sum(), leaves, create_graph=True, materialize_grads=True)
    turned = sum((number * each.sum() for number, each in enumerate(first, 1)), torch.zeros(()))
    if not turned.requires_grad:
        return [*first, *map(torch.zeros_like, leaves)]
    return [*first, *torch.autograd.grad(turned, leaves, materialize_grads=True)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("formula", [*OF_ONE, *OF_TWO])
def test_a_formula_has_torchs_first_and_second_derivatives(formula: str, dtype: torch.dtype) -> None:
    plain = OF_ONE.get(formula) or OF_TWO[formula]
    inputs = [each.to(dtype) for each in INPUTS[1 if formula in OF_ONE else 2]]
    expected = derivatives(plain, inputs)
    for reduction in ("none", "sum"):
        assert_same(derivatives(elementwise(formula, reduction=reduction), inputs), expected)  # type: ignore[arg-type]


def assert_same(found: Any, expected: Any) -> None:
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


WAYS: dict[str, Callable[[Plain, list[Tensor]], Any]] = {
    "vmap of grad": lambda f, x: torch.vmap(torch.func.grad(f, tuple(range(len(x)))))(*x),
    "jacfwd": lambda f, x: torch.func.jacfwd(f, tuple(range(len(x))))(*x),
    "jacrev": lambda f, x: torch.func.jacrev(f, tuple(range(len(x))))(*x),
    "jacrev of jacfwd": lambda f, x: torch.func.jacrev(torch.func.jacfwd(f))(*x)[None],
    "batch_jacobian": lambda f, x: [gw.batch_jacobian(f(*(x := [x[0].clone().requires_grad_(), *x[1:]])), x[0])],
    "torch.compile": lambda f, x: derivatives(torch.compile(f, backend="eager"), x),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("formula", ["clamp(x, 0, 1)", "clamp(x, min=y)", "clamp(x, y, 1)"])
def test_every_way_to_differentiate_has_torchs_slopes(formula: str, way: str) -> None:
    plain, inputs = OF_ONE.get(formula) or OF_TWO[formula], INPUTS[1 if formula in OF_ONE else 2]
    torchs = "jacrev" if way == "jacfwd" else way  # torch 2.13's forward mode gives a tie with a tensor to the bound
    assert_same(WAYS[way](elementwise(formula), inputs), WAYS[torchs](plain, inputs))


@pytest.mark.parametrize("formula", ["clamp(x, 0, 1)", "clamp(x, min=y)", "clamp(x, y, 1)"])
def test_a_formula_of_the_other_convention_is_found(formula: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = ties.find_ties()
    monkeypatch.setattr(ties, "find_ties", lambda: Ties(*(not each for each in real)))
    with pytest.raises(AssertionError):
        test_a_formula_has_torchs_first_and_second_derivatives(formula, torch.float32)


CONVENTIONS = [Ties(True, False), Ties(False, True)]


@pytest.mark.parametrize("convention", CONVENTIONS, ids=str)
def test_kernels_and_plain_torch_code_follow_either_convention(
    convention: Ties, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ties, "find_ties", lambda: convention)
    x, y = torch.tensor([-1.0, 0.0, 0.5, 1.0, 2.0, math.nan]), torch.zeros(6)
    at_bound, share = float(convention.passes_at_numbers), 0.5 if convention.shares_with_tensors else 1.0
    at_nan = float(convention.shares_with_tensors)
    for compiled in (False, True):
        by_numbers, by_tensors = (_compiled(elementwise(f), compiled) for f in ("clamp(x, 0, 1)", "clamp(x, min=y)"))
        assert derivatives(by_numbers, [x])[0].tolist() == [0, at_bound, 1, at_bound, 0, 0]
        of_x, of_y, *_ = derivatives(by_tensors, [x, y])
        assert of_x.tolist() == [0, share, 1, 1, 1, at_nan]
        assert of_y.tolist() == [1, 1 - share, 0, 0, 0, at_nan]


def _compiled(f: Elementwise, compiled: bool) -> Plain:
    torch.compiler.reset()
    return torch.compile(f, backend="eager") if compiled else f


@pytest.mark.parametrize("formula", ["clamp(x, 0, 1)", "clamp(x, min=y)", "clamp(x, y, 1)"])
def test_no_cache_mistakes_the_code_of_one_convention_for_the_other(
    formula: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = []
    for convention in CONVENTIONS:
        monkeypatch.setattr(ties, "find_ties", lambda convention=convention: convention)
        read_formula = read(formula)
        back = Program(read_formula.inputs, (read_formula.output,)).vjp([True] * len(read_formula.inputs), [False])
        machine = elementwise(formula).source("numba")
        keys.append([back.key, torch_source(back), triton_source(back), compiling._key(machine)])
    assert all(one != other for one, other in zip(*keys, strict=True))
