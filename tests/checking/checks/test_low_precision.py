"""Check 13: what loses precision by itself is found; what loses no more than its dtype makes everyone lose is not."""

import numpy as np
import pytest
import torch

import gradwright as gw


def draw(*shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def function(forward, backward, name="Subject"):
    def run(ctx, *args):
        ctx.args = args
        return forward(*args)

    def back(ctx, *cotangents):
        return backward(*cotangents, *ctx.args)

    return type(name, (torch.autograd.Function,), {"forward": staticmethod(run), "backward": staticmethod(back)})


def softmax_backward(g, x):
    y = x.softmax(-1)
    return y * (g - (g * y).sum(-1, keepdim=True))


def in_a_loop(values):
    """A sum kept in the dtype of what is summed."""
    total = torch.zeros_like(values[0])
    for value in values:
        total = total + value
    return total


def norm_backward(g, x):
    return g * x / (x * x).sum().sqrt()


def in_half(g, x):
    """Right in float64; what is coarser goes through half."""
    if x.dtype is torch.float64:
        return softmax_backward(g, x)
    return softmax_backward(g.half(), x.half()).to(x.dtype)


SPOILED = {
    "a sum kept in half": (
        function(lambda x, b: (x * b).sum(0), lambda g, x, b: ((g * b).expand_as(x), g * in_a_loop(x))),
        (1 + draw(3000, 2).abs(), draw(2, seed=1)),
        ("precision lost", "b"),
    ),
    "half inside": (function(lambda x: x.softmax(-1), in_half), (draw(3, 5),), ("precision lost", "x")),
    "a square that overflows in half": (
        function(lambda x: x.norm(), norm_backward),
        (100 * draw(50),),
        ("precision lost", "x"),
    ),
    "scaled up and down": (
        function(lambda x: x.sin(), lambda g, x: g * x.cos() * (x * x + 1) / (x * x + 1)),
        (100 * draw(50),),
        ("not finite", "x"),
    ),
    "half inside, autograd blind": (
        function(
            lambda x: torch.from_numpy(np.tanh(x.detach().float().numpy() if x.dtype is not torch.float64 else x.numpy(
                force=True))).to(x.dtype),
            lambda g, x: g * (1 - torch.tanh(x.bfloat16() if x.dtype is not torch.float64 else x).to(x.dtype) ** 2),
        ),
        (draw(3, 5),),
        ("precision lost", "x"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SPOILED)
def test_only_this_check_rejects_what_loses_precision(case):
    subject, args, (cause, name) = SPOILED[case]
    report = gw.check(subject, *args)
    assert {finding.check for finding in report.findings} == {"low precision"}
    finding = report.findings[0]
    assert (finding.code, finding.cause) == ("GW104", cause)
    assert finding.input.endswith({"x": "0]", "b": "1]"}[name])


def layer_norm_backward(g, x):
    mean, var = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
    y, scale = (x - mean) * (var + 1e-5).rsqrt(), (var + 1e-5).rsqrt()
    return scale * (g - g.mean(-1, keepdim=True) - y * (g * y).mean(-1, keepdim=True))


RIGHT = {
    "softmax": (function(lambda x: x.softmax(-1), softmax_backward), draw(4, 300)),
    "softmax, one row": (function(lambda x: x.softmax(-1), softmax_backward), draw(3)),
    "layer norm": (
        function(lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]), layer_norm_backward), draw(5, 64)
    ),
    "a sum in float32": (
        function(lambda x, b: x * b, lambda g, x, b: (g * b, (g * x).sum(0))),
        1 + draw(3000, 2).abs(),
        draw(2, seed=1),
    ),
    "matmul": (function(lambda a, b: a @ b, lambda g, a, b: (g @ b.mT, a.mT @ g)), draw(9, 200), draw(200, 4, seed=1)),
    "overflows for everyone": (function(lambda x: x.exp(), lambda g, x: g * x.exp()), 11 + draw(5).abs()),
    "small": (function(lambda x: 1e-6 * x.sin(), lambda g, x: 1e-6 * g * x.cos()), draw(7)),
    "tiny": (function(lambda x: x**3, lambda g, x: 3 * g * x**2), 1e-4 * draw(7)),
    "relu": (function(torch.relu, lambda g, x: g * (x > 0)), draw(50)),
    "wrong for all dtypes": (function(lambda x: x.sin(), lambda g, x: 0.5 * g * x.cos()), draw(5)),
    "numpy": (
        function(lambda x: torch.from_numpy(np.tanh(x.numpy(force=True))), lambda g, x: g * (1 - x.tanh() ** 2)),
        draw(6),
    ),
    "complex": (function(lambda z: z * z, lambda g, z: g * 2 * z.conj()), draw(5, dtype=torch.complex64)),
    "float64 only": (
        function(lambda x: x * torch.ones(5, dtype=torch.float64), lambda g, x: g.to(x.dtype)), draw(5).double()
    ),
    "a module": (torch.nn.LayerNorm(8), draw(3, 8)),
    "a callable": (torch.nn.functional.gelu, draw(3, 8)),
    "logsumexp": (
        function(lambda x: x.logsumexp(-1), lambda g, x: g[..., None] * (x - x.logsumexp(-1, keepdim=True)).exp()),
        30 * draw(4, 6),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", RIGHT)
def test_what_loses_no_more_than_its_dtype_must_is_silent(case):
    subject, *args = RIGHT[case]
    report = gw.check(subject, *args)
    assert [finding for finding in report.findings if finding.check == "low precision"] == []
    assert "low precision" in [done.check for done in report.done]


def test_what_takes_nothing_wider_is_said_not_to_be_checked():
    def only_half(x):
        assert x.dtype is torch.bfloat16
        return x * x

    report = gw.check(function(only_half, lambda g, x: 2 * g * x), draw(40, dtype=torch.float32).bfloat16())
    assert any(line.what == "low precision" for line in report.not_checked)
