"""Choices between numbers, as torch makes them."""

from __future__ import annotations

from gradwright.kernels.machine.emission import Lane


def maximum(a: Lane, b: Lane) -> Lane:
    """NaN where either is, as torch.maximum has it."""
    return a.is_nan().choose(a, (a > b).choose(a, b))


def minimum(a: Lane, b: Lane) -> Lane:
    return a.is_nan().choose(a, (a < b).choose(a, b))


def sign(x: Lane) -> Lane:
    """0 of a NaN, as torch.sign has it."""
    return (x > 0.0).choose(1.0, (x < 0.0).choose(x.of(-1.0), x.of(0.0)))
