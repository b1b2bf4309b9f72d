"""A case: one Function, right or spoiled, that the judges are asked about; and how to rebuild exactly one."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import torch
from torch import Tensor

from corpus.admission import agrees_with_differences
from corpus.measuring import not_finite, outcomes, ratios, values
from corpus.operators import specimens
from corpus.rights import right_ones
from corpus.specimen import Specimen
from corpus.spoilers import all_spoilers
from corpus.spoilers.base import Spoiler
from corpus.spoilers.memory import with_saved_mask
from corpus.wrapping import Wrapping

FUNCTIONS = "autograd_function_db"


@dataclass(frozen=True)
class Case:
    """``right``: the sound Function of this place; ``spoiler``: what spoils it (``None``: nothing does).

    ``style`` describes a right one; ``subject`` is there for a Function that torch ships, and then ``right`` is not;
    ``fault`` is what was measured of such a one.
    """

    operator: str
    sample: int
    opaque: bool
    style: str
    right: Wrapping | None = None
    spoiler: Spoiler | None = None
    subject: Any = None
    given: tuple[Any, ...] = ()
    fault: str = ""

    @property
    def key(self) -> str:
        where = "opaque" if self.opaque else "transparent"
        return " | ".join((self.operator, str(self.sample), where, self.style))

    def wrapping(self) -> Wrapping:
        assert self.right is not None
        if self.spoiler is None:
            return self.right
        made = self.spoiler.make(self.right)
        assert made is not None
        return made

    def build(self) -> Any:
        """A fresh Function class (or the callable that torch ships)."""
        return self.subject if self.right is None else self.wrapping().build()

    def args(self) -> tuple[Any, ...]:
        if self.right is None:
            return tuple(
                item.detach().clone().requires_grad_(item.requires_grad) if isinstance(item, Tensor) else item
                for item in self.given
            )
        return self.wrapping().specimen.fresh()

    @property
    def once(self) -> bool:
        return self.right is not None and self.wrapping().once

    @property
    def stochastic(self) -> bool:
        return self.style == MASKED or (self.spoiler is not None and self.spoiler.stochastic)

    @property
    def in_place(self) -> bool:
        return self.spoiler is None and "in place" in self.style

    def is_spoiled_in_truth(self) -> bool:
        """Measured, by nothing of gradwright's: does it differ from the right one?"""
        if self.spoiler is None:
            return False
        spoiled = self.wrapping()
        right = spoiled.but(forward=None, backward=None, extra=(), once=False, setup=None)
        derivative = self.spoiler.kind == "wrong value" or "second order" in self.spoiler.causes
        if derivative and spoiled.specimen.kinked and not not_finite(spoiled):
            return False  # at a kink any subgradient is right, and there is no second derivative
        if self.spoiler.kind == "wrong value" and outcomes(spoiled, values)[1]:
            return False  # it raises: no wrong value, and no judge's merit to see it
        return self.spoiler.differs(right, spoiled)

    def accepted(self) -> list[str]:
        """The cause words that are true of this case, the label first.

        A spoiler that comes to a constant factor here (a flip of one row, a region that holds every entry) may be
        called one; a factor that is the count of an axis, or one over it, is "sum for mean" too.
        """
        assert self.spoiler is not None
        words = list(self.spoiler.causes)
        if self.spoiler.kind == "wrong value":
            spoiled = self.wrapping()
            right = spoiled.but(forward=None, backward=None)
            counts = _counts(spoiled.specimen)
            if not_finite(spoiled):
                words.append("not finite")
            for ratio in ratios(right, spoiled):
                if ratio is None:
                    continue
                words += ["constant factor"] + ["sign"] * (ratio < 0) + ["dropped term"] * (ratio == 0)
                if ratio and any(abs(abs(ratio) * n - 1) < 1e-9 or abs(abs(ratio) / n - 1) < 1e-9 for n in counts):
                    words.append("sum for mean")
        return list(dict.fromkeys(words))


MASKED = "transparent, dropout with the mask saved"


def _counts(specimen: Specimen) -> set[int]:
    with torch.no_grad():
        outputs = specimen.call(*specimen.fresh())
    tensors = [*specimen.args, *outputs]
    counts = {size for tensor in tensors for size in (*tensor.shape, tensor.numel())}
    counts |= {one.numel() // max(other.numel(), 1) for one in tensors for other in tensors}
    return {count for count in counts if count > 1}


@lru_cache(maxsize=4)
def _admitted(operator: str) -> tuple[Specimen, ...]:
    return tuple(specimens(operator)[0])


def right_cases(operator: str) -> Iterator[Case]:
    """Right Functions of every style, at each sample of this operator."""
    for sample, specimen in enumerate(_admitted(operator)):
        for style, wrapping in right_ones(specimen).items():
            yield Case(operator, sample, wrapping.opaque, style, wrapping)
        yield Case(operator, sample, False, MASKED, with_saved_mask(Wrapping(specimen, opaque=False)))


def spoiled_cases(operator: str, number: int, *, both: bool = False) -> Iterator[Case]:
    """Every spoiler that applies to the operator's first sample, transparent and opaque in turn (``both``: each)."""
    for specimen in _admitted(operator)[:1]:
        for place, spoiler in enumerate(all_spoilers().values()):
            for opaque in (False, True) if both else ((number + place) % 2 == 1,):
                right = Wrapping(specimen, opaque=opaque)
                if spoiler.make(right) is not None:
                    yield Case(operator, 0, opaque, spoiler.name, right, spoiler)


@cache
def shipped_cases() -> tuple[Case, ...]:
    """Of torch's ``autograd_function_db``. Each is put to the question here, by central differences and by the shapes
    that its backward returns: some that torch ships are no derivatives, on purpose or not (see ``fault``)."""
    from torch.testing._internal.autograd_function_db import autograd_function_db

    found = []
    for op in autograd_function_db:
        torch.manual_seed(0)
        draw: Any = op.sample_inputs
        for number, sample in enumerate(draw("cpu", torch.float64, requires_grad=True)):
            given = (sample.input, *sample.args)
            fault = "" if _confirmed(op.op, given) else "not the derivative, by central differences"
            fault = fault or ("a gradient is not summed to its input's shape" if _unreduced(op.op, given) else "")
            found.append(Case(FUNCTIONS, number, True, op.name, subject=op.op, given=given, fault=fault))
    return tuple(found)


def _unreduced(subject: Any, given: Sequence[Any]) -> bool:
    """Does its backward return a gradient of another shape than its input's (and the engine sums it)?"""
    function = getattr(subject, "__self__", None)
    if function is None:
        return False
    shapes: list[Any] = []

    def backward(ctx: Any, *cotangents: Any) -> Any:
        result = function.backward(ctx, *cotangents)
        shapes.extend(result if isinstance(result, tuple) else (result,))
        return result

    watched = type(function.__name__, (function,), {"backward": staticmethod(backward)})
    result = watched.apply(*given)  # type: ignore[attr-defined]
    first = result[0] if isinstance(result, tuple) else result
    first.sum().backward()
    return any(
        isinstance(one, Tensor) and isinstance(other, Tensor) and one.shape != other.shape
        for one, other in zip(shapes, given, strict=False)
    )


def _confirmed(subject: Any, given: Sequence[Any]) -> bool:
    places = [index for index, item in enumerate(given) if isinstance(item, Tensor)]

    def call(*tensors: Tensor) -> tuple[Tensor, ...]:
        filled = list(given)
        for index, tensor in zip(places, tensors, strict=True):
            filled[index] = tensor
        result = subject(*filled)
        return result if isinstance(result, tuple) else (result,)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return agrees_with_differences(Specimen(FUNCTIONS, 0, call, tuple(given[index] for index in places)))


def case(operator: str, sample: int = 0, opaque: bool = False, spoiler: str = "") -> Case:
    """Exactly one case, for debugging. ``spoiler``: a spoiler's name, a right one's style, "" for the plain right one.

    ``operator`` may also be the whole key, as ``--misses`` prints it.
    """
    if " | " in operator:
        operator, number, where, spoiler = operator.split(" | ")
        sample, opaque = int(number), where == "opaque"
    if operator == FUNCTIONS:
        return next(item for item in shipped_cases() if (item.style, item.sample) == (spoiler, sample))
    style = spoiler or ("opaque" if opaque else "transparent")
    specimen = _admitted(operator)[sample]
    found = all_spoilers().get(style)
    if found is not None:
        return Case(operator, sample, opaque, style, Wrapping(specimen, opaque=opaque), found)
    return next(item for item in right_cases(operator) if (item.sample, item.style) == (sample, style))
