"""What an element is here: a float64 value, which decides comparisons, and residues, which decide equality."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from gradwright.ground.torch_versions.modes import disabled_torch_function_impl
from gradwright.ground.torch_versions.tensors import make_wrapper_subclass

Part = torch.Tensor


class NotExaminedError(Exception):
    """This code can't be evaluated exactly; the sentence says why."""


@dataclass(frozen=True)
class Number:
    """Elements of one array. ``value``: float64; ``residues``: int64, one per modulus of the field, the same shape.

    ``value`` is what floating-point arithmetic makes of the formula; the residues are the formula itself, evaluated in
    a finite field: no rounding. Where ``value`` is not finite the residues mean nothing and are 0.
    """

    value: Part
    residues: tuple[Part, ...]

    @property
    def parts(self) -> tuple[Part, ...]:
        return (self.value, *self.residues)

    @property
    def shape(self) -> torch.Size:
        return self.value.shape

    def dim(self) -> int:
        return self.value.dim()

    def numel(self) -> int:
        return self.value.numel()

    def map(self, function: Callable[[Part], Part]) -> Number:
        """The same movement of elements in every part."""
        return Number(function(self.value), tuple(function(part) for part in self.residues))

    def copy_(self, other: Number) -> None:
        for mine, theirs in zip(self.parts, other.parts, strict=True):
            mine.copy_(theirs)


def joined(numbers: list[Number], function: Callable[[list[Part]], Part]) -> Number:
    """Several arrays into one (``torch.cat``, ``torch.where``), part by part."""
    return Number(
        function([number.value for number in numbers]),
        tuple(function(list(parts)) for parts in zip(*(number.residues for number in numbers), strict=True)),
    )


def replaced(value: Any, kind: type, function: Callable[[Any], Any]) -> Any:
    """``value`` with everything of that kind in its tuples, lists and dicts replaced (pytree: ten times slower)."""
    if isinstance(value, kind):
        return function(value)
    if type(value) in (tuple, list):
        return type(value)([replaced(one, kind, function) for one in value])
    if type(value) is dict:
        return {key: replaced(one, kind, function) for key, one in value.items()}
    return value


def flat(value: Any) -> Iterator[Any]:
    """What stands in tuples, lists and dicts."""
    if isinstance(value, (tuple, list)):
        for one in value:
            yield from flat(one)
    elif isinstance(value, dict):
        yield from flat(list(value.values()))
    else:
        yield value


class ExactTensor(torch.Tensor):
    """A tensor whose elements are a :class:`Number`. Autograd and custom Functions run above it, unchanged.

    ``dtype`` is what the code believes it computes in. Views share the parts' memory, so writing works as ever. What an
    operation does is decided by the mode that is active (``evaluation.Evaluation``), never here.
    """

    number: Number
    __torch_function__ = disabled_torch_function_impl

    @staticmethod
    def __new__(cls, number: Number, dtype: torch.dtype, requires_grad: bool = False) -> ExactTensor:
        value = number.value
        made: ExactTensor = make_wrapper_subclass(
            cls,
            value.size(),
            strides=value.stride(),
            storage_offset=value.storage_offset(),
            dtype=dtype,
            device=value.device,
            requires_grad=requires_grad,
        )
        made.number = number
        return made

    def __init__(self, number: Number, dtype: torch.dtype, requires_grad: bool = False) -> None:
        """All is done in ``__new__``."""

    def _leaves(self, *ignored: Any, **named: Any) -> Any:
        raise NotExaminedError("it leaves torch for NumPy or for memory as it lies")

    # Here and not only in a mode: a pointer to no memory must not reach anybody. Each is called as torch calls its own.
    data_ptr = numpy = __array__ = __dlpack__ = _leaves

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # torch types it as it is called from C
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise NotExaminedError(f"{func} was called after the evaluation had ended")
