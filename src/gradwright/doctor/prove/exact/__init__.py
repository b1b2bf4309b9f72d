"""Equality as real formulas: original and candidate are evaluated without rounding, and so are their vjps.

Rung (b) of the ladder in research/performance.md. The inputs are small and random; each element is a float64 value,
which decides every comparison as it does in the real run, and residues modulo primes, which decide equality (see
``field``). Transcendental functions are known by name only, but for exp. Autograd runs above, so that each vjp is
the one the code really has: torch's formulas, or a custom Function's own backward.

What is shown holds for the shapes that were tried, at random points of every branch that their values took.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from gradwright.doctor.prove.exact.comparing import Difference, first_difference
from gradwright.doctor.prove.exact.field import FIELDS, Field
from gradwright.doctor.prove.exact.inputs import KINDS, Arguments, made_exact
from gradwright.doctor.prove.exact.number import NotExaminedError
from gradwright.doctor.prove.exact.run import outcome

__all__ = ["Exact", "same_formulas"]


@dataclass(frozen=True)
class Exact:
    """``shapes``: at which arguments outputs and vjps are equal as real formulas. ``told``: the difference, or why
    nothing can be said; "" if equal."""

    verdict: Literal["equal", "different", "not examined"]
    shapes: tuple[str, ...]
    told: str = ""


def same_formulas(
    original: Callable[..., Any],
    candidate: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    wanted: Sequence[tuple[bool, ...]],
    *,
    seconds: float = 5.0,
) -> Exact:
    """Are outputs, vjps, vjps of vjps and what is left in the arguments equal as real formulas?

    ``arguments``: small argument tuples; both callables get them spread (``original(*args)``), as tensors whose
    elements are exact: real tensors, also those in lists, tuples and dicts, are replaced, everything else is passed
    on. A wanted argument requires a gradient and is no leaf, so that it may be written into. Of the given values sign,
    size and ties are kept in one of three evaluations; the others are random. Outputs: any nesting of tensors,
    numbers and None. ``wanted``: per argument tuple and argument, whether its gradient matters. ``seconds``: after
    that, "not examined".

    "different" means that the formulas are, not that floats are: at some small input outputs or gradients are not
    equal. "not examined": an operation without exact counterpart, or a difference that an identity of transcendental
    functions could explain. Nothing is raised for what the callables do.

    Cost: three evaluations of each per argument tuple, with both derivatives, at about 100 us an operation.

    >>> import torch
    >>> def loop(x):
    ...     total = torch.zeros(())
    ...     for i in range(len(x)):
    ...         total = total + x[i] * x[i]
    ...     return total
    >>> x = torch.tensor([2.0, -1.0, 0.5])
    >>> same_formulas(loop, lambda x: x.square().sum(), [(x,)], [(True,)])
    Exact(verdict='equal', shapes=('float32 [3]',), told='')
    >>> same_formulas(loop, lambda x: 2 * x.abs().sum(), [(x,)], [(True,)]).verdict
    'different'
    """
    deadline = time.thread_time() + seconds
    shapes: list[str] = []
    unsure = ""
    for given, want in zip(arguments, wanted, strict=True):
        held = 0
        for kind, field in zip(KINDS, itertools.cycle(FIELDS), strict=False):
            try:
                found = _compared(original, candidate, given, want, kind, field, deadline)
            except NotExaminedError as error:
                return Exact("not examined", (), str(error))
            if isinstance(found, Difference):
                return Exact("different" if found.certain else "not examined", (), f"{described(given)}: {found.told}")
            unsure = unsure or found
            held += not found
        if held:
            shapes.append(described(given))
    if not shapes:
        return Exact("not examined", (), unsure or "there was nothing to try")
    return Exact("equal", tuple(shapes))


def _compared(
    original: Callable[..., Any],
    candidate: Callable[..., Any],
    given: Arguments,
    wanted: tuple[bool, ...],
    kind: str,
    field: Field,
    deadline: float,
) -> Difference | str:
    """The first difference; "" if there is none; otherwise why these values say nothing (the original raised)."""
    before = outcome(original, made_exact(given, wanted, kind, field), field, deadline)
    if before.raised:
        return f"the original raised {before.raised}"
    after = outcome(candidate, made_exact(given, wanted, kind, field), field, deadline)
    return first_difference(before, after) or ""


def described(arguments: Arguments) -> str:
    """
    >>> described((torch.zeros(2, 3), [torch.zeros(4, dtype=torch.int64)], 5))
    'float32 [2, 3], int64 [4], 5'
    """
    return ", ".join(_described(value) for value in arguments)


def _described(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return ", ".join(_described(one) for one in value)
    return repr(value) if isinstance(value, (bool, int, float, str)) else type(value).__name__
