"""A call: its arguments, the dtype and shape of its result, what is reduced, masked and weighed."""

import copy
import itertools
import pickle
import subprocess
import sys
import threading
import warnings
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from gradwright.errors import UsageError
from gradwright.ground.torch_versions import ties
from gradwright.ground.torch_versions.ties import Ties
from gradwright.kernels.elementwise import Elementwise, elementwise

PINBALL = "where(e > 0, q*e, (q - 1)*e)"
SPREAD = torch.tensor([[1.0, -2.0, 0.5], [0.0, 4.0, -0.25]])


def _pinball(e: torch.Tensor, q: float) -> torch.Tensor:
    return torch.where(e > 0, q * e, (q - 1) * e)


def test_inputs_are_handed_over_by_position_or_by_name() -> None:
    f = elementwise(PINBALL)
    known = _pinball(SPREAD, 0.75)
    for found in (f(SPREAD, 0.75), f(SPREAD, q=0.75), f(q=0.75, e=SPREAD)):
        torch.testing.assert_close(found, known)


def test_a_function_is_a_formula_with_its_own_order_and_defaults() -> None:
    def huber(x, y, delta=1.0):
        d = abs(x - y)
        return 0.5 * d * d if d < delta else delta * (d - 0.5 * delta)

    f = elementwise(huber, reduction="mean")
    x, y = SPREAD, SPREAD.flip(0)
    torch.testing.assert_close(f(x, y), F.huber_loss(x, y))
    torch.testing.assert_close(f(x, y, delta=0.25), F.huber_loss(x, y, delta=0.25))
    assert repr(f) == "<elementwise huber(x, y, delta), reduction='mean'>"


FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.bool]


@pytest.mark.usefixtures("plain_torch")
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: str(dtype)[6:])
def test_the_dtype_is_torchs_promotion(dtype) -> None:
    f = elementwise("x * y")
    shapes = ((3,), (3,)), ((3,), ()), ((), (3,)), ((), ())
    for beside, (shape, other) in itertools.product(FLOATS, shapes):
        x, y = torch.ones(shape, dtype=dtype), torch.ones(other, dtype=beside)
        known = (x * y).dtype
        assert f(x, y).dtype == (known if known.is_floating_point else torch.get_default_dtype()), beside
        assert f(x, 2.5).dtype == (x * 2.5).dtype


def test_integers_and_bools_are_numbers() -> None:
    f = elementwise("x / 2 + y")
    found = f(torch.tensor([1, 2], dtype=torch.int16), torch.tensor([True, False]))
    assert found.tolist() == [1.5, 1.0]
    assert found.dtype == torch.float32


def test_a_call_of_numbers_alone_gives_a_tensor_of_the_default_dtype() -> None:
    f = elementwise("x * y")
    assert f(2, 3.5).dtype == torch.float32
    assert f(2, 3.5).item() == 7.0
    torch.set_default_dtype(torch.float64)
    try:
        assert f(2, 3.5).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("number", [2, 2.0, True, np.float32(2), np.int64(2), np.float64(2), Fraction(2)], ids=repr)
def test_any_real_number_is_a_number(number) -> None:
    assert elementwise("x * y")(torch.tensor([3.0]), number).tolist() == [3.0 * float(number)]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
def test_half_precision_is_computed_in_float32(dtype) -> None:
    f = elementwise("exp(x) - exp(y)", reduction="sum")
    x = torch.linspace(-3, 3, 300).to(dtype).requires_grad_()
    y = torch.linspace(-2, 3, 300).requires_grad_()
    value = f(x, y)
    value.backward()
    assert (value.dtype, x.grad.dtype, y.grad.dtype) == (torch.float32, dtype, torch.float32)
    assert torch.equal(x.grad, x.detach().double().exp().to(dtype))
    assert f(x, 1.0).dtype == dtype


def test_under_autocast_a_reduction_is_float32() -> None:
    x = torch.linspace(-3, 3, 300).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        assert elementwise("x*x", reduction="mean")(x).dtype == torch.float32
        assert elementwise("x*x")(x).dtype == torch.bfloat16
        assert elementwise("x*x", reduction="mean")(x.double()).dtype == torch.float64
    assert elementwise("x*x", reduction="mean")(x).dtype == torch.bfloat16


def test_accumulating_in_float64_computes_in_float64() -> None:
    x = torch.tensor([1.0, 1e-7, -1.0]).requires_grad_()
    wide, narrow = (elementwise("(x + 1e8) - 1e8", reduction="sum", accumulate=d) for d in (torch.float64, None))
    assert abs(wide(x).item() - 1e-7) < 1e-8
    assert narrow(x).item() != wide(x).item()
    (gradient,) = torch.autograd.grad(wide(x), x)
    assert gradient.dtype == torch.float32


@pytest.mark.parametrize("dim", [None, 0, 1, -1, (0, 1), (0, 2), (-1, 0)], ids=str)
@pytest.mark.parametrize(("reduction", "keepdim"), [("sum", True), ("mean", False)], ids=["sum, keep", "mean, drop"])
def test_axes_are_reduced_as_torch_reduces_them(dim, keepdim, reduction) -> None:
    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    q = torch.randn(3, 1, dtype=torch.float64, requires_grad=True)
    found = elementwise("q * x * x", reduction=reduction, dim=dim, keepdim=keepdim)(x=x, q=q)
    known = getattr(q * x * x, reduction)(dim, keepdim=keepdim)
    torch.testing.assert_close(found, known)
    weights = torch.randn_like(known)
    for a, b in zip(
        torch.autograd.grad(found, (x, q), weights), torch.autograd.grad(known, (x, q), weights), strict=True
    ):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)], ids=str)
def test_of_nothing_a_sum_is_zero_and_a_mean_nan(shape) -> None:
    x = torch.empty(shape, requires_grad=True)
    total, mean = (elementwise("x * q", reduction=r)(x, 2.0) for r in ("sum", "mean"))
    assert total.item() == 0
    assert mean.isnan()
    (total + mean).backward()
    assert x.grad.shape == shape
    assert elementwise("x * q", reduction="sum", dim=-1)(x, 2.0).shape == shape[:-1]
    q = torch.ones((), requires_grad=True)
    elementwise("x * q", reduction="sum")(x, q).backward()
    assert q.grad.item() == 0


MASK = torch.tensor([[True, False, True], [True, True, False]])
WEIGHT = torch.tensor([0.5, 2.0, 0.25])


def test_a_masked_element_counts_as_zero_whatever_it_is() -> None:
    x = torch.tensor([[1.0, -1.0, 4.0], [9.0, 16.0, -4.0]], requires_grad=True)
    f = elementwise("sqrt(x) + log(x)", reduction="sum")
    value = f(x, mask=MASK)
    value.backward()
    kept = x.detach()[MASK].double()
    torch.testing.assert_close(value.double(), (kept.sqrt() + kept.log()).sum(), rtol=1e-6, atol=0)
    assert torch.equal(x.grad[~MASK], torch.zeros(2))
    torch.testing.assert_close(x.grad[MASK].double(), 0.5 / kept.sqrt() + 1 / kept, rtol=1e-6, atol=0)
    assert torch.equal(elementwise("sqrt(x)")(x, mask=MASK)[~MASK], torch.zeros(2))


@pytest.mark.usefixtures("plain_torch")
@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"mask": MASK}, id="mask"),
        pytest.param({"weight": WEIGHT}, id="weight"),
        pytest.param({"weight": 0.3}, id="number"),
        pytest.param({"weight": WEIGHT, "mask": MASK[:1]}, id="both"),
        pytest.param({"weight": 2, "mask": MASK}, id="number and mask"),
    ],
)
def test_a_mean_is_divided_by_what_counts(more) -> None:
    for dim, keepdim in itertools.product((None, 0, 1, (0, 1)), (False, True)):
        divided_by_what_counts(dim, keepdim, more)


def divided_by_what_counts(dim, keepdim, more) -> None:
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    found = elementwise("x**3", reduction="mean", dim=dim, keepdim=keepdim)(x, **more)
    weight = torch.as_tensor(more.get("weight", 1.0)).double().expand(2, 3) * more.get("mask", torch.tensor(True))
    axes = (0, 1) if dim is None else dim
    known = (weight * x**3).sum(axes, keepdim=keepdim) / weight.sum(axes, keepdim=keepdim)
    torch.testing.assert_close(found, known, equal_nan=True)
    counted = torch.where(known.isnan(), 0.0, 1.0)
    torch.testing.assert_close(*(torch.autograd.grad(value, x, counted)[0].nan_to_num() for value in (found, known)))


def test_a_weighted_mean_is_that_of_mse_loss() -> None:
    x, y = SPREAD, SPREAD.flip(1)
    weight = WEIGHT.expand(2, 3)
    found = elementwise("(x - y)**2", reduction="mean")(x, y, weight=weight)
    torch.testing.assert_close(found, F.mse_loss(x, y, weight=weight))  # type: ignore[call-arg]


@pytest.mark.usefixtures("plain_torch")
def test_a_weight_that_is_learned_has_its_gradient_through_the_divisor_too() -> None:
    weight = WEIGHT.double().requires_grad_()
    x = SPREAD.double()
    found = elementwise("x*x", reduction="mean")(x, weight=weight, mask=MASK)
    known = (weight * x * x * MASK).sum() / (weight * MASK).sum()
    first, second = [], []
    for value in (found, known):
        (gradient,) = torch.autograd.grad(value, weight, create_graph=True)
        second += torch.autograd.grad(gradient.square().sum(), weight)
        first.append(gradient)
    torch.testing.assert_close(*first)
    torch.testing.assert_close(*second)


def test_of_nothing_unmasked_a_mean_is_nan_and_its_gradient_zero() -> None:
    x = SPREAD.clone().requires_grad_()
    f = elementwise("x*x", reduction="mean")
    value = f(x, mask=torch.zeros(2, 3, dtype=torch.bool))
    value.backward()
    assert value.isnan()
    assert not x.grad.any()
    rows = elementwise("x*x", reduction="mean", dim=1)(x, mask=torch.tensor([[True], [False]]))
    assert rows.isnan().tolist() == [False, True]


def test_inputs_of_a_formula_that_are_called_weight_and_mask_are_its_own() -> None:
    f = elementwise("weight * x + mask", reduction="mean")
    assert f(weight=2.0, x=torch.tensor([1.0, 3.0]), mask=1.0).item() == 5.0


def test_a_formula_keeps_the_strides_of_its_inputs() -> None:
    f = elementwise("x * x + y")
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last).requires_grad_()
    y = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    value = f(x, y)
    value.backward(torch.ones_like(value))
    assert value.is_contiguous(memory_format=torch.channels_last)
    assert x.grad.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(value, x * x + y)
    torch.testing.assert_close(x.grad, 2 * x.detach())


def test_each_gradient_has_the_strides_of_its_own_input() -> None:
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last).requires_grad_()
    y = torch.randn(2, 3, 4, 5).requires_grad_()
    elementwise("x * y", reduction="sum")(x, y).backward()
    assert (x.grad.stride(), y.grad.stride()) == (x.stride(), y.stride())
    assert torch.equal(x.grad, y)


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t[:, ::2],
        lambda t: t.t(),
        lambda t: t[:1].expand(4, 6),
        lambda t: t.flip(0)[1:],
        lambda t: t.as_strided((3, 3), (1, 1)),
        lambda t: t[0, 0],
        lambda t: t.to(torch.complex64).conj().imag + 0 * t,
        lambda t: torch.complex(t, t).conj().imag,
    ],
    ids=["every second", "transposed", "expanded", "offset", "overlapping", "no axes", "of a complex one", "negated"],
)
def test_an_input_may_lie_in_memory_as_it_likes(view) -> None:
    whole = torch.randn(4, 6, requires_grad=True)
    f = elementwise("x * x", reduction="sum")
    found, known = f(view(whole)), view(whole).square().sum()
    torch.testing.assert_close(found, known)
    torch.testing.assert_close(*(torch.autograd.grad(value, whole)[0] for value in (found, known)))


def test_a_meta_tensor_gives_shapes() -> None:
    x = torch.empty(2, 3, device="meta", requires_grad=True)
    value = elementwise("x * q", reduction="mean", dim=1)(x, q=2.0)
    assert (value.device.type, value.shape) == ("meta", (2,))
    (gradient,) = torch.autograd.grad(value.sum(), x)
    assert gradient.shape == (2, 3)


def test_a_pickled_function_is_the_same_one() -> None:
    original = elementwise(lambda x, y=2.0: x * y if x > 0 else x * x, reduction="sum", dim=0, keepdim=True)
    for copied in (pickle.loads(pickle.dumps(original)), copy.deepcopy(original), copy.copy(original)):
        assert isinstance(copied, Elementwise)
        assert repr(copied) == repr(original)
        assert torch.equal(copied(SPREAD), original(SPREAD))


@pytest.mark.usefixtures("plain_torch")
def test_a_deep_formula_pickles() -> None:
    text = "x"
    for _ in range(40):
        text = f"sin({text}) + x"
    f = elementwise(text)
    assert torch.equal(pickle.loads(pickle.dumps(f))(SPREAD), f(SPREAD))


def test_it_shows_its_formula_its_derivatives_and_its_kernel() -> None:
    shown = str(elementwise(PINBALL, reduction="mean", name="pinball")).splitlines()
    assert shown[:5] == [
        "pinball(e, q): the mean of",
        f"  {PINBALL}",
        "its derivative by",
        "  e  where(e > 0, q, q - 1)",
        "  q  e",
    ]
    assert shown[5] == "inputs of 1,000,000 float32 elements on a CPU go through" and shown[6].startswith("  ")


# Of numbers (2.13, 2.14), then of a bound that is an input.
SLOPES_ON_BOUNDS = {
    "clamp(x, 0, 1)": [("1", "0")],
    "clamp(x, min=y)": [("1, and the bound's 0", "1/2, and the bound's 1/2")],
    "relu(x) + clamp(x, max=1) * clamp(x, 0, y)": [("1", "0"), ("1, and the bound's 0", "1/2, and the bound's 1/2")],
    "max(x, 0)": [],
    "where(clamp(x, 0, 1) > 0.5, x, 0)": [],
}


@pytest.mark.parametrize("formula", SLOPES_ON_BOUNDS)
@pytest.mark.parametrize("convention", [Ties(True, False), Ties(False, True)], ids=str)
def test_it_says_which_slope_clamp_has_on_its_bounds(
    formula: str, convention: Ties, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ties, "find_ties", lambda: convention)
    shown = [line for line in str(elementwise(formula)).splitlines() if line.startswith("on a bound of clamp")]
    slopes = [line.partition(" the slope is ")[2] for line in shown]
    expected = [pair[convention.shares_with_tensors] for pair in SLOPES_ON_BOUNDS[formula]]
    assert slopes == [f"{each}, as in torch {torch.__version__}" for each in expected]
    assert [" made of inputs" in line for line in shown] == ["bound's" in each for each in expected]


def test_its_code_is_shown_for_every_back_end() -> None:
    f = elementwise(PINBALL, reduction="mean")
    assert "# value and gradients\n" in f.source("torch")
    assert "def kernel(" in f.source("numba")
    assert "@triton.jit" in f.source("triton")
    x = SPREAD.clone().requires_grad_()
    assert f.source("torch", x, 0.5, mask=MASK).count("def ") == 2
    assert elementwise(PINBALL).source("torch", x, 0.5).count("# gradients\n") == 1
    with pytest.raises(UsageError, match="no back end 'cuda'"):
        f.source("cuda")


def test_a_plan_says_what_is_done() -> None:
    f = elementwise(PINBALL, reduction="mean")
    assert f.plan(SPREAD, 0.5).shape == (2, 3)
    assert f.plan(SPREAD.to("meta"), 0.5).is_fallback
    assert not f.plan().is_fallback


def test_a_given_derivative_pickles() -> None:
    original = elementwise("log(1 + exp(x))", derivative={"x": "sigmoid(x)"}, reduction="sum")
    x = SPREAD.clone().requires_grad_()
    copied = pickle.loads(pickle.dumps(original))
    torch.testing.assert_close(torch.autograd.grad(copied(x), x)[0], x.detach().sigmoid())


def test_many_threads_may_call_at_once() -> None:
    f = elementwise("x*x*y", reduction="mean")
    found: dict[int, torch.Tensor] = {}

    def work(seed: int) -> None:
        x = torch.full((5000 + seed,), float(seed), requires_grad=True)
        for _ in range(20):
            x.grad = None
            f(x, 0.5).backward()
        assert x.grad is not None
        found[seed] = x.grad * x.numel()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in range(1, 9):
        torch.testing.assert_close(found[seed], torch.full((5000 + seed,), float(seed)))


def test_a_traced_mean_is_of_the_shape_it_meets() -> None:
    f = elementwise("x*x", reduction="mean")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch.jit is on its way out
        traced = torch.jit.trace(lambda x, m: f(x, mask=m), (SPREAD, MASK))
    x, mask = torch.randn(7, 5), torch.rand(7, 5) > 0.5
    torch.testing.assert_close(traced(x, mask), f(x, mask=mask))


def test_importing_it_imports_no_compiler() -> None:
    code = "import sys, gradwright.kernels.elementwise; print({'numba', 'triton', 'torch._dynamo'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_a_first_call_imports_no_sympy() -> None:
    """It takes 0.3 s, more than all else that a kernel from disk needs."""
    code = (
        "import sys, torch\nfrom gradwright.kernels.elementwise import elementwise\n"
        "elementwise('x * y', reduction='mean')(torch.ones(3, requires_grad=True), torch.ones(2, 1)).backward()\n"
        "print('sympy' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
