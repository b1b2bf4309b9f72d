"""Functions that take nothing but float32, bfloat16 or float16 are judged, too, as closely as those dtypes allow."""

import numpy as np
import pytest
import torch

from gradwright.checking import judge_values


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float32)


def only(dtype, forward, backward):
    """A Function that refuses every other dtype."""

    def run(ctx, *args):
        assert all(arg.dtype is dtype for arg in args)
        ctx.args = args
        return forward(*args)

    def back(ctx, *cotangents):
        return backward(*cotangents, *ctx.args)

    return type("Only", (torch.autograd.Function,), {"forward": staticmethod(run), "backward": staticmethod(back)})


def softmax_backward(g, x):
    y = x.softmax(-1)
    return y * (g - (g * y).sum(-1, keepdim=True))


CASES = {
    "square": (lambda x: x * x, lambda g, x: 2 * g * x),
    "sine": (torch.sin, lambda g, x: g * x.cos()),
    "softmax": (lambda x: x.softmax(-1), softmax_backward),
    "relu": (torch.relu, lambda g, x: g * (x > 0)),
    "in place": (
        lambda x: x.clone().sigmoid_().mul_(2),
        lambda g, x: 2 * g * x.sigmoid() * (1 - x.sigmoid()),
    ),
    "sum": (lambda x: x.sum(), lambda g, x: g.expand_as(x)),
    "numpy": (lambda x: torch.from_numpy(x.detach().float().numpy() ** 2).to(x.dtype), lambda g, x: 2 * g * x),
}
DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def verdict(dtype, case, change=lambda gradient: gradient, shape=(5, 8)):
    forward, backward = CASES[case]
    subject = only(dtype, forward, lambda *args: change(backward(*args)))
    (found,) = judge_values(subject, [draw(*shape).to(dtype)], [True])
    return found


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_right_in_its_only_dtype_is_right(case, dtype):
    assert verdict(dtype, case).verdict == "right"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_a_sign_is_wrong_in_its_only_dtype(case, dtype):
    assert verdict(dtype, case, lambda gradient: -gradient).verdict == "wrong"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_half_of_it_is_never_called_right(case, dtype):
    assert verdict(dtype, case, lambda gradient: gradient / 2).verdict in ("wrong", "unknown")


@pytest.mark.parametrize("case", ["square", "sine", "softmax", "relu"])
def test_in_float32_a_factor_of_one_in_a_thousand_is_found_where_autograd_sees_the_forward(case):
    found = verdict(torch.float32, case, lambda gradient: 1.002 * gradient)
    assert (found.verdict, found.cause) == ("wrong", "constant factor")


# --- complex ---------------------------------------------------------------------------------------------------------


def function(forward, backward):
    def run(ctx, *args):
        ctx.args = args
        return forward(*args)

    def back(ctx, *cotangents):
        return backward(*cotangents, *ctx.args)

    return type("Complex", (torch.autograd.Function,), {"forward": staticmethod(run), "backward": staticmethod(back)})


def in_numpy(forward):
    return lambda *args: torch.from_numpy(np.asarray(forward(*(arg.detach().resolve_conj().numpy() for arg in args))))


Z, W = torch.complex(draw(6), draw(6, seed=1)), torch.complex(draw(6, seed=2), draw(6, seed=3))
WIRTINGER = {  # forward, its gradients, the same with a conjugate lost (or one too many)
    "square": (lambda z: z * z, lambda g, z: 2 * g * z.conj(), lambda g, z: 2 * g * z, (Z,)),
    "square in numpy": (in_numpy(lambda z: z * z), lambda g, z: 2 * g * z.conj(), lambda g, z: 2 * g * z, (Z,)),
    "exponential in place": (
        lambda z: z.clone().exp_().mul_(2),
        lambda g, z: 2 * g * z.exp().conj(),
        lambda g, z: 2 * g * z.exp(),
        (Z,),
    ),
    "to a real": (lambda z: z.abs() ** 2, lambda g, z: 2 * g * z, lambda g, z: 2 * g * z.conj(), (Z,)),
    "from a real": (
        lambda x: torch.exp(1j * x),
        lambda g, x: (g * (1j * torch.exp(1j * x)).conj()).real,
        lambda g, x: (g * 1j * torch.exp(1j * x)).real,
        (draw(6),),
    ),
    "of no holomorphic kind": (lambda z: z * z.conj() * z, lambda g, z: 2 * g * z.abs() ** 2 + g.conj() * z * z,
        lambda g, z: 2 * g * z.abs() ** 2 + g * z * z, (Z,)),
    "two": (torch.mul, lambda g, z, w: (g * w.conj(), g * z.conj()), lambda g, z, w: (g * w, g * z.conj()), (Z, W)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("case", WIRTINGER)
def test_complex_gradients_follow_torchs_convention_and_a_lost_conjugate_is_found(case, dtype):
    forward, right, wrong, args = WIRTINGER[case]
    given = [arg.to(dtype) if arg.is_complex() else arg for arg in args]
    assert {found.verdict for found in judge_values(function(forward, right), given, [True] * len(given))} == {"right"}
    first, *others = judge_values(function(forward, wrong), given, [True] * len(given))
    assert first.verdict == "wrong"
    assert {found.verdict for found in others} <= {"right"}
