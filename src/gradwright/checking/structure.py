"""What a tensor given by the caller seems to be, beyond numbers: symmetric, sorted, rows that sum to one.

A Function may be right on such tensors only, and rightly so. So a check that makes other values keeps the structure
that it recognises: a table, one recogniser and one restorer per line, the more special first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

# How far from its structure a tensor in float32 may be that has been computed to have it.
NEAR = 1e-5


@dataclass(frozen=True)
class Structure:
    """``holds(tensor)`` recognises it, ``restore(values)`` gives any values this structure, of any shape or (where
    ``square``) of square matrices."""

    name: str
    holds: Callable[[Tensor], bool]
    restore: Callable[[Tensor], Tensor]
    square: bool = False


def structure_of(tensor: Tensor) -> Structure | None:
    """The structure that a floating-point ``tensor`` was given on purpose, as no random numbers have it; else ``None``.

    Shapes: any. Cost: a few passes over it; over large ones (more than 2**16 elements) only those that need no product.

    >>> structure_of(torch.tensor([[2.0, 1.0], [1.0, 3.0]])).name
    'positive definite'
    >>> structure_of(torch.tensor([0.25, 0.75])).name
    'sums to one'
    """
    if not tensor.is_floating_point() or tensor.numel() < 2 or not bool(torch.isfinite(tensor).all()):
        return None
    values = tensor.detach().to("cpu", torch.float64)
    constant = bool((values == values.flatten()[0]).all())
    return None if constant else next((kind for kind in STRUCTURES if kind.holds(values)), None)


def _near(one: Tensor, other: Tensor) -> bool:
    return bool(torch.allclose(one, other, rtol=NEAR, atol=NEAR))


def _is_square(values: Tensor) -> bool:
    return values.dim() >= 2 and values.shape[-1] == values.shape[-2] > 1 and values.numel() <= 2**16


def _is_symmetric(values: Tensor) -> bool:
    return _is_square(values) and _near(values, values.mT)


def _is_positive_definite(values: Tensor) -> bool:
    return _is_symmetric(values) and not bool(torch.linalg.cholesky_ex(values).info.any())


def _positive_definite(values: Tensor) -> Tensor:
    side = values.shape[-1]
    return values @ values.mT / side + torch.eye(side, dtype=values.dtype) * values.abs().mean()


def _is_orthogonal(values: Tensor) -> bool:
    return _is_square(values) and _near(values @ values.mT, torch.eye(values.shape[-1], dtype=values.dtype))


def _is_lower(values: Tensor) -> bool:
    return _is_square(values) and not bool(values.triu(1).any())


def _is_upper(values: Tensor) -> bool:
    return _is_square(values) and not bool(values.tril(-1).any())


def _is_sorted(values: Tensor) -> bool:
    return values.shape[-1] > 3 and bool((values.diff(dim=-1) >= 0).all())


def _is_one_hot(values: Tensor) -> bool:
    return _sums_to_one(values) and _are_integers(values)


def _one_hot(values: Tensor) -> Tensor:
    return torch.zeros_like(values).scatter_(-1, values.argmax(-1, keepdim=True), 1.0)


def _sums_to_one(values: Tensor) -> bool:
    sums = values.sum(-1)
    return values.shape[-1] > 1 and bool((values >= 0).all()) and _near(sums, torch.ones_like(sums))


def _is_log_of_such(values: Tensor) -> bool:
    return values.shape[-1] > 1 and bool((values <= 0).all()) and _sums_to_one(values.exp())


def _has_unit_norm(values: Tensor) -> bool:
    norms = values.norm(dim=-1)
    return values.shape[-1] > 1 and _near(norms, torch.ones_like(norms)) and not _are_integers(values)


def _are_integers(values: Tensor) -> bool:
    return torch.equal(values, values.round())


STRUCTURES = (
    Structure("positive definite", _is_positive_definite, _positive_definite, square=True),
    Structure("orthogonal", _is_orthogonal, lambda values: torch.linalg.qr(values).Q, square=True),
    Structure("symmetric", _is_symmetric, lambda values: (values + values.mT) / 2, square=True),
    Structure("lower triangular", _is_lower, torch.tril),
    Structure("upper triangular", _is_upper, torch.triu),
    Structure("one-hot", _is_one_hot, _one_hot),
    Structure("sums to one", _sums_to_one, lambda values: (values.abs() + NEAR) / (values.abs() + NEAR).sum(-1, True)),
    Structure("log of what sums to one", _is_log_of_such, lambda values: values.log_softmax(-1)),
    Structure("unit norm", _has_unit_norm, lambda values: values / values.norm(dim=-1, keepdim=True).clamp(min=NEAR)),
    Structure("sorted", _is_sorted, lambda values: values.sort(-1).values),
)
