"""What a name stands for where two ways meet: the ends of two branches, a loop's beginning and its end."""

from __future__ import annotations

from dataclasses import replace

from gradwright.doctor.rewrite.kernels.scalars import tensorness
from gradwright.doctor.rewrite.kernels.sizes import Sizes
from gradwright.doctor.rewrite.kernels.values import Row, Scalar, Several, Value, wider
from gradwright.doctor.rewrite.source_text import DeclinedError


def joined(
    one: dict[str, Value], other: dict[str, Value], unsure: set[str], sizes: Sizes
) -> tuple[dict[str, Value], set[str]]:
    """Values by name, and the names that may not be bound. Raises: DeclinedError."""
    values, missing = dict(one), set(unsure)
    for name, value in other.items():
        if name in one:
            values[name] = _join(name, one[name], value, sizes)
        else:
            values[name] = value
            missing.add(name)
    missing |= set(one) - set(other)
    return values, missing


def _join(name: str, one: Value, other: Value, sizes: Sizes) -> Value:
    if isinstance(one, Scalar) and isinstance(other, Scalar):
        if one.type != other.type and "bool" in (one.type, other.type):
            raise DeclinedError(f"{name} is a truth value here and a number there")
        tensor = tensorness(one, other) if one.tensor == other.tensor else None
        return replace(one, type=wider(one.type, other.type), tensor=tensor, native=one.native and other.native)
    if isinstance(one, Row) and isinstance(other, Row) and one.type == other.type and one.listed == other.listed:
        pairs = list(zip(one.extents, other.extents, strict=False))
        if len(one.extents) == len(other.extents) and all(sizes.equal(a, b) for a, b in pairs):
            return replace(one, reads=one.reads | other.reads)
    if isinstance(one, Several) and isinstance(other, Several) and len(one.items) == len(other.items):
        items = tuple(_join(name, a, b, sizes) for a, b in zip(one.items, other.items, strict=True))
        return Several(items, one.names)
    if one.kind == other.kind:
        return one
    raise DeclinedError(f"{name} is not of one kind and one shape through all rounds")
