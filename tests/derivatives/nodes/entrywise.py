"""One row per recorded operation that works entry by entry: the node's name, a function that makes it, its domain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from tests.derivatives.nodes.oracles import drawn
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Row:
    """``f`` of z, between ``low`` and ``high``, records ``node``; ``note`` tells rows of one node apart."""

    node: str
    f: Callable[[Tensor], Tensor]
    low: float = -2.0
    high: float = 2.0
    note: str = ""

    def __str__(self) -> str:
        return f"{self.node.removesuffix('0').replace('Backward', '')} {self.note}".strip()


def weight(like: Tensor) -> Tensor:
    """A tensor of positive numbers that asks for a gradient, with only the last axis of ``like``."""
    return drawn(like.shape[-1], low=0.5, high=1.5).to(like.dtype).requires_grad_()


def fixed(like: Tensor) -> Tensor:
    return drawn(like.shape[-1], low=0.5, high=1.5).to(like.dtype)


def _in_place(name: str, *args: object) -> Callable[[Tensor], Tensor]:
    return lambda z: getattr(z * 1, name)(*args)


SMOOTH = [
    Row("TanhBackward0", torch.tanh),
    Row("SigmoidBackward0", torch.sigmoid),
    Row("ExpBackward0", torch.exp),
    Row("Exp2Backward0", torch.exp2),
    Row("Expm1Backward0", torch.expm1),
    Row("SqrtBackward0", torch.sqrt, 0.5),
    Row("RsqrtBackward0", torch.rsqrt, 0.5),
    Row("ReciprocalBackward0", torch.reciprocal, 0.5),
    Row("TanBackward0", torch.tan, -1.2, 1.2),
    Row("SpecialNdtriBackward0", torch.special.ndtri, 0.1, 0.9),
    Row("LogBackward0", torch.log, 0.2),
    Row("Log2Backward0", torch.log2, 0.2),
    Row("Log10Backward0", torch.log10, 0.2),
    Row("Log1PBackward0", torch.log1p, -0.5),
    Row("SinBackward0", torch.sin),
    Row("CosBackward0", torch.cos),
    Row("AsinBackward0", torch.asin, -0.9, 0.9),
    Row("AcosBackward0", torch.acos, -0.9, 0.9),
    Row("AtanBackward0", torch.atan),
    Row("SinhBackward0", torch.sinh),
    Row("CoshBackward0", torch.cosh),
    Row("AsinhBackward0", torch.asinh),
    Row("AcoshBackward0", torch.acosh, 1.2, 3.0),
    Row("AtanhBackward0", torch.atanh, -0.9, 0.9),
    Row("ErfBackward0", torch.erf),
    Row("ErfcBackward0", torch.erfc),
    Row("ErfinvBackward0", torch.erfinv, -0.9, 0.9),
    Row("LgammaBackward0", torch.lgamma, 0.5, 3.0),
    Row("DigammaBackward0", torch.digamma, 0.5, 3.0),
    Row("PolygammaBackward0", lambda z: torch.polygamma(1, z), 0.5, 3.0),
    Row("LogitBackward0", torch.logit, 0.1, 0.9),
    Row("LogitBackward0", lambda z: torch.logit(z, eps=0.3), 0.01, 0.99, "with eps"),
    Row("SpecialEntrBackward0", torch.special.entr, 0.2),
    Row("SpecialErfcxBackward0", torch.special.erfcx),
    Row("SpecialLogNdtrBackward0", torch.special.log_ndtr),
    Row("PowBackward0", lambda z: z**2, note="2"),
    Row("PowBackward0", lambda z: z**3, note="3"),
    Row("PowBackward0", lambda z: z**1.0, note="1"),
    Row("PowBackward0", lambda z: z**0.0, note="0"),
    Row("PowBackward0", lambda z: z**-1.5, 0.5, note="-1.5"),
    Row("PowBackward2", lambda z: 3.0**z),
    Row("XlogyBackward1", lambda z: torch.xlogy(1.7, z), 0.3),
    Row("XlogyBackward2", lambda z: torch.xlogy(z, 1.7), 0.3),
    Row("NegBackward0", torch.neg),
    Row("Deg2RadBackward0", torch.deg2rad),
    Row("Rad2DegBackward0", torch.rad2deg),
]

PIECEWISE = [
    Row("ReluBackward0", torch.relu),
    Row("ReluBackward0", _in_place("relu_"), note="in place"),
    Row("LeakyReluBackward0", lambda z: F.leaky_relu(z, 0.3)),
    Row("LeakyReluBackward1", lambda z: F.leaky_relu(z * 1, 0.3, inplace=True)),
    Row("ThresholdBackward0", lambda z: F.threshold(z, 0.5, -1.0)),
    Row("ThresholdBackward1", lambda z: F.threshold(z * 1, 0.5, -1.0, inplace=True)),
    Row("HardtanhBackward0", F.relu6, -2.0, 8.0),
    Row("HardshrinkBackward0", F.hardshrink),
    Row("SoftshrinkBackward0", F.softshrink),
    Row("ClampBackward1", lambda z: z.clamp(-1.0, 1.0)),
    Row("ClampMaxBackward0", lambda z: z.clamp_max(1.0)),
    Row("ClampMinBackward0", lambda z: z.clamp_min(-1.0)),
    Row("NanToNumBackward0", torch.nan_to_num),
    Row("FracBackward0", torch.frac),
    Row("RemainderBackward0", lambda z: z.remainder(0.7)),
    Row("FmodBackward0", lambda z: z.fmod(0.7)),
    Row("CopysignBackward1", lambda z: torch.copysign(z, -1.0)),
    Row("HardswishBackward0", F.hardswish, -5.0, 5.0),
    Row("EluBackward0", lambda z: F.elu(z, 1.3)),
    Row("EluBackward0", F.selu, note="selu"),
    Row("EluBackward1", lambda z: F.elu(z * 1, 1.3, inplace=True)),
    Row("CeluBackward0", lambda z: F.celu(z, 1.3)),
    Row("CeluBackward1", lambda z: F.celu(z * 1, 1.3, inplace=True)),
    Row("GeluBackward0", F.gelu),
    Row("GeluBackward0", lambda z: F.gelu(z, approximate="tanh"), note="tanh"),
    Row("SiluBackward0", F.silu),
    Row("MishBackward0", F.mish),
    Row("SoftplusBackward0", F.softplus),
    Row("SoftplusBackward0", lambda z: F.softplus(z, 3.0, 2.0), note="with a threshold"),
    Row("LogSigmoidBackward0", F.logsigmoid),
    Row("AbsBackward0", torch.abs),
    Row("SgnBackward0", torch.sgn),
    Row("AngleBackward0", torch.angle),
]

STEPS = [
    Row("RoundBackward0", torch.round),
    Row("RoundBackward1", lambda z: z.round(decimals=1)),
    Row("FloorBackward0", torch.floor),
    Row("CeilBackward0", torch.ceil),
    Row("TruncBackward0", torch.trunc),
    Row("SignBackward0", torch.sign),
    Row("ZeroBackward0", _in_place("zero_")),
    Row("FillBackward2", _in_place("fill_", 2.0)),
    Row("FillBackward0", lambda z: torch.fill(z, 2.0)),
    Row("FillBackward1", lambda z: torch.fill(z, torch.tensor(2.0, dtype=z.dtype))),
    Row("FillBackward3", lambda z: (z * 1).fill_(torch.tensor(2.0, dtype=z.dtype))),
]

ARITHMETIC = [
    Row("AddBackward0", lambda z: z + 2.5, note="number"),
    Row("AddBackward0", lambda z: torch.add(weight(z), z.sin(), alpha=3), note="alpha"),
    Row("AddBackward0", lambda z: z + z, note="itself"),
    Row("AddBackward0", _in_place("add_", 1.0), note="in place"),
    Row("SubBackward0", lambda z: torch.sub(z.exp(), z.sin(), alpha=0.3)),
    Row("RsubBackward1", lambda z: 1 - z),
    Row("RsubBackward0", lambda z: torch.rsub(z.sin(), z.exp(), alpha=2)),
    Row("AddBackward1", lambda z: torch.ops.aten.add.Scalar(z, 2.0)),
    Row("SubBackward1", lambda z: torch.ops.aten.sub.Scalar(z, 2.0)),
    Row("MulBackward0", lambda z: z * 2.1, note="number"),
    Row("MulBackward0", lambda z: z * fixed(z), note="constant"),
    Row("MulBackward0", lambda z: z * weight(z), note="weight"),
    Row("MulBackward0", lambda z: z * z, note="itself"),
    Row("MulBackward0", lambda z: z.sin() * z.exp(), note="both"),
    Row("MulBackward0", lambda z: z * weight(z)[0], note="learned scale"),
    Row("MulBackward1", lambda z: torch.ops.aten.mul.Scalar(z, 2.1)),
    Row("DivBackward0", lambda z: z / 2.1, note="number"),
    Row("DivBackward0", lambda z: z.sin() / (2 + z.square()), note="both"),
    Row("DivBackward0", lambda z: weight(z) / (2 + z.square()), note="under"),
    Row("DivBackward1", lambda z: torch.ops.aten.div.Scalar(z, 2.1)),
    Row("DivBackward2", lambda z: torch.div(z, 0.7, rounding_mode="floor")),
    Row("DivBackward2", lambda z: torch.div(z.sin(), z.exp(), rounding_mode="trunc"), note="both"),
    Row("DivBackward3", lambda z: torch.ops.aten.div.Scalar_mode(z, 2.1, rounding_mode=None)),
    Row("PowBackward1", lambda z: z.exp() ** z.sin(), note="both"),
    Row("PowBackward1", lambda z: z ** torch.arange(z.shape[-1], dtype=z.dtype), note="0, 1, 2"),
    Row("PowBackward1", lambda z: weight(z) ** z, note="exponent"),
    Row("LerpBackward0", lambda z: torch.lerp(z.sin(), z.exp(), 0.3)),
    Row("LerpBackward1", lambda z: torch.lerp(z.sin(), z.exp(), z.cos())),
    Row("LerpBackward1", lambda z: torch.lerp(z, weight(z).expand(z.shape), fixed(z).expand(z.shape)), note="constant"),
    Row("AddcmulBackward0", lambda z: torch.addcmul(z.cos(), z.sin(), z.exp(), value=0.7)),
    Row("AddcmulBackward0", lambda z: torch.addcmul(weight(z), z.sin(), fixed(z), value=0.7), note="one"),
    Row("AddcdivBackward0", lambda z: torch.addcdiv(z.cos(), z.sin(), 2 + z.square(), value=0.7)),
    Row("AddcdivBackward0", lambda z: torch.addcdiv(fixed(z), fixed(z), 2 + z.square(), value=0.7), note="under"),
    Row("Atan2Backward0", lambda z: torch.atan2(z.sin(), z.exp())),
    Row("HypotBackward0", lambda z: torch.hypot(z.sin(), z.exp())),
    Row("LogaddexpBackward0", lambda z: torch.logaddexp(z.sin(), z.exp())),
    Row("Logaddexp2Backward0", lambda z: torch.logaddexp2(z.sin(), weight(z))),
    Row("XlogyBackward0", lambda z: torch.xlogy(z.sin(), z.exp())),
    Row("PreluKernelBackward0", lambda z: F.prelu(z.sin(), weight(z)[:1]), note="weight"),
    Row("PreluKernelBackward0", lambda z: torch._prelu_kernel(z.sin(), z.exp()), note="both"),
    Row("RemainderBackward1", lambda z: torch.remainder(z.sin(), z.exp())),
    Row("FmodBackward1", lambda z: torch.fmod(z.sin(), z.exp())),
    Row("CopysignBackward0", lambda z: torch.copysign(z.sin(), z.exp())),
]

CHOICES = [
    Row("MaximumBackward0", lambda z: torch.maximum(z.sin(), z.cos())),
    Row("MaximumBackward0", lambda z: torch.maximum(z.sin(), z.sin() * 1), note="ties"),
    Row("MinimumBackward0", lambda z: torch.minimum(z, weight(z))),
    Row("FmaxBackward0", lambda z: torch.fmax(z.sin(), z.cos())),
    Row("FminBackward0", lambda z: torch.fmin(z.sin(), z.cos())),
    Row("ClampBackward0", lambda z: torch.clamp(z, z.sin() - 0.5, z.cos() + 0.5)),
    Row("ClampMaxBackward1", lambda z: torch.clamp_max(z, z.cos())),
    Row("ClampMinBackward1", lambda z: torch.clamp_min(z, z.cos())),
    Row("WhereBackward0", lambda z: torch.where(z > 0, z.sin(), z.exp())),
    Row("WhereBackward0", lambda z: torch.where(fixed(z) > 1, z, 0.0), note="constant"),
    Row("MaskedFillBackward0", lambda z: z.masked_fill(z > 0, 1.0)),
    Row("MaskedFillBackward1", lambda z: z.masked_fill(z > 0, weight(z)[0])),
    Row("CopyBackwards", lambda z: (z * 1).copy_(z.sin())),
    Row("CopyBackwards", lambda z: torch.zeros_like(z).copy_(z.sin()), note="into zeros"),
    Row("CloneBackward0", torch.clone),
    Row("AliasBackward0", torch.ops.aten.alias),
    Row("ToCopyBackward0", lambda z: z.to(torch.complex128).real),
]


def _gradient(f: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """cos(z) f'(z), as a backward that was recorded."""
    return lambda z: torch.autograd.grad(f(z), z, z.cos(), create_graph=True)[0]


BACKWARDS = [
    Row("TanhBackwardBackward0", _gradient(torch.tanh)),
    Row("SigmoidBackwardBackward0", _gradient(torch.sigmoid)),
    Row("SoftplusBackwardBackward0", _gradient(lambda z: F.softplus(z, 3.0, 2.0))),
    Row("LogSigmoidBackwardBackward0", _gradient(F.logsigmoid)),
    Row("EluBackwardBackward0", _gradient(lambda z: F.elu(z, 1.3))),
    Row("EluBackwardBackward0", _gradient(lambda z: F.celu(z * 1, 1.3, inplace=True)), note="in place"),
    Row("GeluBackwardBackward0", _gradient(F.gelu)),
    Row("HardswishBackwardBackward0", _gradient(F.hardswish), -5.0, 5.0),
    Row("ThresholdBackwardBackward0", _gradient(torch.relu)),
    Row("LeakyReluBackwardBackward0", _gradient(F.leaky_relu)),
    Row("HardtanhBackwardBackward0", _gradient(F.hardtanh)),
    Row("HardshrinkBackwardBackward0", _gradient(F.hardshrink)),
    Row("SoftshrinkBackwardBackward0", _gradient(F.softshrink)),
    Row("MulBackward1", _gradient(torch.erf), note="gradient of erf"),
    Row("AddBackward1", _gradient(F.silu), note="gradient of silu"),
    Row("WhereBackward0", _gradient(lambda z: z.clamp(-1, 1)), note="gradient of clamp"),
]

#: Drawn anew at each call, so their truth is that of the one graph at hand.
RANDOM = [
    Row("NativeDropoutBackward0", lambda z: torch.native_dropout(z, 0.4, True)[0]),
    Row("RreluWithNoiseBackward0", lambda z: F.rrelu(z, training=True)),
    Row("MulBackward0", lambda z: F.dropout(z, 0.4), note="dropout"),
]

ROWS = SMOOTH + PIECEWISE + STEPS + ARITHMETIC + CHOICES + BACKWARDS + RANDOM
