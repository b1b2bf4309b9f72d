"""Twelve formulas, each as a text for ``gw.elementwise``, as torch code, as an autograd.Function written by hand, as
torch's own operator where it has one, and as a function for JAX.

A loss (``is_loss``) is averaged, and differentiated with respect to its first input; the others are targets. An
activation keeps its shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Subject:
    """``hand``: the value and the derivative by the first input, as torch code, for the Function written by hand.
    ``limit``: what it has to be measured against: memory, or one torch.exp."""

    name: str
    text: str
    eager: Callable[..., Tensor]
    hand: Callable[..., tuple[Tensor, Tensor]]
    jax: Callable[..., Any]
    inputs: tuple[str, ...] = ("x", "y")
    numbers: Mapping[str, float] = field(default_factory=dict)
    is_loss: bool = True
    limit: str = "memory"
    library: Callable[..., Tensor] | None = None
    probabilities: bool = False  # its second input lies between 0 and 1


def _square(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    e = x - y
    return e * e, 2 * e


def _huber(x: Tensor, y: Tensor, d: float) -> tuple[Tensor, Tensor]:
    e = x - y
    a = e.abs()
    return torch.where(a <= d, 0.5 * e * e, d * (a - 0.5 * d)), e.clamp(-d, d)


def _pseudo_huber(x: Tensor, y: Tensor, d: float) -> tuple[Tensor, Tensor]:
    e = (x - y) / d
    root = (1 + e * e).sqrt()
    return d * d * (root - 1), d * e / root


def _log_cosh(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    e = x - y
    a = e.abs()
    return a + torch.log1p(torch.exp(-2 * a)) - math.log(2), e.tanh()


def _pinball(x: Tensor, y: Tensor, q: float) -> tuple[Tensor, Tensor]:
    e = x - y
    up = e > 0
    return torch.where(up, q * e, (q - 1) * e), torch.where(up, q, q - 1)


def _bce(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return F.softplus(x) - x * y, x.sigmoid() - y


def _focal(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    p = x.sigmoid()
    wrong = y + p - 2 * p * y
    ce = F.softplus(x) - x * y
    return wrong**2 * ce, wrong * (2 * (1 - 2 * y) * p * (1 - p) * ce + wrong * (p - y))


def _gelu(x: Tensor) -> tuple[Tensor, Tensor]:
    normal = 0.5 * (1 + torch.erf(x / math.sqrt(2)))
    return x * normal, normal + x * torch.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def _mish(x: Tensor) -> tuple[Tensor, Tensor]:
    t = F.softplus(x).tanh()
    return x * t, t + x * (1 - t * t) * x.sigmoid()


def _swish(x: Tensor) -> tuple[Tensor, Tensor]:
    s = x.sigmoid()
    return x * s, s + x * s * (1 - s)


def _barron(x: Tensor, y: Tensor, a: float) -> tuple[Tensor, Tensor]:
    e, b = x - y, abs(a - 2)
    inner = e * e / b + 1
    return b / a * (inner ** (a / 2) - 1), e * inner ** (a / 2 - 1)


def _long(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    e = x - y
    a, s = e.abs(), 1 + e * e
    u = a / (1 + a)
    v = e / s
    w = u * u * (3 - 2 * u)
    value = w * s.sqrt() + (1 - w) * (0.5 * e * e) + 0.1 * v * v - 0.05 * u
    du = e.sign() / (1 + a) ** 2
    dv = (1 - e * e) / (s * s)
    dw = 6 * u * (1 - u) * du
    slope = dw * s.sqrt() + w * e / s.sqrt() - dw * (0.5 * e * e) + (1 - w) * e + 0.2 * v * dv - 0.05 * du
    return value, slope


def _long_of(sqrt: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def long(x: Any, y: Any) -> Any:
        e = x - y
        a, s = abs(e), 1 + e * e
        u = a / (1 + a)
        v = e / s
        w = u * u * (3 - 2 * u)
        return w * sqrt(s) + (1 - w) * (0.5 * e * e) + 0.1 * v * v - 0.05 * u

    return long


_E, _A = "(x - y)", "abs(x - y)"
_U = f"({_A} / (1 + {_A}))"
_W = f"({_U}**2 * (3 - 2 * {_U}))"
_LONG = f"{_W} * sqrt(1 + {_E}**2) + (1 - {_W}) * (0.5 * {_E}**2) + 0.1 * ({_E} / (1 + {_E}**2))**2 - 0.05 * {_U}"


def subjects() -> list[Subject]:
    """In the order of the table."""
    jnp, jn = _jax()
    return [
        Subject(
            "square", "(x - y)**2", lambda x, y: (x - y) ** 2, _square, lambda x, y: (x - y) ** 2,
            library=lambda x, y: F.mse_loss(x, y),
        ),
        Subject(
            "Huber", "where(abs(x - y) <= d, 0.5 * (x - y)**2, d * (abs(x - y) - 0.5 * d))",
            lambda x, y, d: torch.where((x - y).abs() <= d, 0.5 * (x - y) ** 2, d * ((x - y).abs() - 0.5 * d)),
            _huber, lambda x, y, d: jnp.where(abs(x - y) <= d, 0.5 * (x - y) ** 2, d * (abs(x - y) - 0.5 * d)),
            numbers={"d": 1.0}, library=lambda x, y, d: F.huber_loss(x, y, delta=d),
        ),
        Subject(
            "pseudo-Huber", "d * d * (sqrt(1 + ((x - y) / d)**2) - 1)",
            lambda x, y, d: d * d * (torch.sqrt(1 + ((x - y) / d) ** 2) - 1),
            _pseudo_huber, lambda x, y, d: d * d * (jnp.sqrt(1 + ((x - y) / d) ** 2) - 1), numbers={"d": 1.5},
        ),
        Subject(
            "log-cosh", "abs(x - y) + log1p(exp(-2 * abs(x - y))) - 0.6931471805599453",
            lambda x, y: (x - y).abs() + torch.log1p(torch.exp(-2 * (x - y).abs())) - math.log(2),
            _log_cosh, lambda x, y: abs(x - y) + jnp.log1p(jnp.exp(-2 * abs(x - y))) - math.log(2),
            limit="exp and log1p",
        ),
        Subject(
            "quantile", "where(x - y > 0, q * (x - y), (q - 1) * (x - y))",
            lambda x, y, q: torch.where(x - y > 0, q * (x - y), (q - 1) * (x - y)),
            _pinball, lambda x, y, q: jnp.where(x - y > 0, q * (x - y), (q - 1) * (x - y)), numbers={"q": 0.9},
        ),
        Subject(
            "BCE with logits", "softplus(x) - x * y", lambda x, y: F.softplus(x) - x * y,
            _bce, lambda x, y: jn.softplus(x) - x * y, limit="exp and log1p", probabilities=True,
            library=lambda x, y: F.binary_cross_entropy_with_logits(x, y),
        ),
        Subject(
            "focal", "(y + sigmoid(x) - 2 * sigmoid(x) * y)**2 * (softplus(x) - x * y)",
            lambda x, y: (y + x.sigmoid() - 2 * x.sigmoid() * y) ** 2 * (F.softplus(x) - x * y),
            _focal, lambda x, y: (y + jn.sigmoid(x) - 2 * jn.sigmoid(x) * y) ** 2 * (jn.softplus(x) - x * y),
            limit="exp and log1p", probabilities=True,
        ),
        Subject(
            "GELU", "0.5 * x * (1 + erf(x * 0.7071067811865476))",
            lambda x: 0.5 * x * (1 + torch.erf(x * math.sqrt(0.5))),
            _gelu, lambda x: jn.gelu(x, approximate=False), ("x",), is_loss=False, limit="erf and exp", library=F.gelu,
        ),
        Subject(
            "mish", "x * tanh(softplus(x))", lambda x: x * F.softplus(x).tanh(),
            _mish, lambda x: x * jnp.tanh(jn.softplus(x)), ("x",), is_loss=False,
            limit="exp, log1p and exp", library=F.mish,
        ),
        Subject(
            "swish", "x * sigmoid(x)", lambda x: x * x.sigmoid(), _swish, lambda x: jn.silu(x), ("x",),
            is_loss=False, limit="exp", library=F.silu,
        ),
        Subject(
            "Barron", "abs(a - 2) / a * (((x - y)**2 / abs(a - 2) + 1)**(a / 2) - 1)",
            lambda x, y, a: abs(a - 2) / a * (((x - y) ** 2 / abs(a - 2) + 1) ** (a / 2) - 1),
            _barron, lambda x, y, a: abs(a - 2) / a * (((x - y) ** 2 / abs(a - 2) + 1) ** (a / 2) - 1),
            numbers={"a": 1.3}, limit="pow",
        ),
        Subject("30 nodes", _LONG, _long_of(torch.sqrt), _long, _long_of(jnp.sqrt if jnp else math.sqrt)),
    ]  # fmt: skip


def _jax() -> tuple[Any, Any]:
    try:
        import jax.nn
        import jax.numpy
    except ImportError:
        return None, None
    return jax.numpy, jax.nn


def by_hand(subject: Subject) -> Callable[..., Tensor]:
    """What a careful user writes: an autograd.Function that keeps the slope of the forward."""

    class Hand(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, *rest: Any) -> Tensor:
            value, slope = subject.hand(x, *rest)
            ctx.rest = len(rest)
            if subject.is_loss:
                ctx.save_for_backward(slope / slope.numel() if ctx.needs_input_grad[0] else slope)
                return value.mean()
            ctx.save_for_backward(slope)
            return value

        @staticmethod
        def backward(ctx: Any, cotangent: Tensor) -> Any:
            (slope,) = ctx.saved_tensors
            return slope * cotangent, *[None] * ctx.rest

    return Hand.apply
