"""Inputs for exact evaluation: short dyadic numbers near the given ones, with random ones and with ties."""

from __future__ import annotations

from typing import Any

import torch

from gradwright.doctor.prove.exact.field import Field
from gradwright.doctor.prove.exact.number import ExactTensor, Number, replaced

Arguments = tuple[Any, ...]

# As given, to 8 significant bits: its ties and zeros · all different, of the given sign · many ties
KINDS = ("given", "spread", "tied")


def made_exact(given: Arguments, wanted: tuple[bool, ...], kind: str, field: Field) -> Arguments:
    """The arguments with every real tensor exact; the wanted ones require a gradient. The same for the same call."""
    generator = torch.Generator().manual_seed(field.seed)
    made = []
    for value, want in zip(given, wanted, strict=True):

        def one(tensor: torch.Tensor, want: bool = want) -> torch.Tensor:
            if not tensor.is_floating_point():
                return tensor.detach().clone()
            values = KIND[kind](tensor.detach().to("cpu", torch.float64), generator).contiguous()
            return ExactTensor(Number(values, field.of_floats(values)), tensor.dtype, want)

        made.append(replaced(value, torch.Tensor, one))
    return tuple(made)


def shortened(values: torch.Tensor, bits: int) -> torch.Tensor:
    """To so many significant bits: sums and products of a few of them are exact in float64."""
    mantissa, exponent = torch.frexp(values)
    return torch.where(values.isfinite(), torch.ldexp((mantissa * 2.0**bits).round() / 2.0**bits, exponent), values)


def _given(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return shortened(values, 8)


def _spread(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    factor = 0.75 + torch.rand(values.shape, generator=generator, dtype=torch.float64) / 2
    near = torch.randn(values.shape, generator=generator, dtype=torch.float64)
    return shortened(torch.where(values == 0, near, values * factor), 12)


def _tied(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    size = torch.randint(1, 4, values.shape, generator=generator).to(torch.float64) / 2
    return torch.sign(values) * size


KIND = {"given": _given, "spread": _spread, "tied": _tied}


def cotangent(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    """Random dyadic numbers, float64."""
    return shortened(torch.randn(shape, generator=generator, dtype=torch.float64), 8)
