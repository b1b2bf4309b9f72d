"""Ways out of torch: ``.item()``, ``.tolist()``, ``math.exp`` and lists of numbers that become tensors.

A Python number made from an array's element remembers that element, and what is computed from it is computed on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from gradwright.doctor.prove.exact.number import ExactTensor, replaced
from gradwright.doctor.prove.exact.rewordings import REPLACED


class ExactNumber(float):
    """A float that remembers the element it was: arithmetic, comparisons and ``math`` go on with that."""

    tensor: torch.Tensor

    def __new__(cls, tensor: torch.Tensor, value: float) -> ExactNumber:
        made = super().__new__(cls, value)
        made.tensor = tensor
        return made

    def __bool__(self) -> bool:
        return bool(self.tensor != 0)

    def __hash__(self) -> int:
        return super().__hash__()


def _number(tensor: torch.Tensor) -> ExactNumber:
    held = tensor.detach().reshape(()).clone()
    assert isinstance(held, ExactTensor)
    return ExactNumber(held, float(held.number.value))


def as_tensor(value: Any) -> Any:
    """A number on its way through Python as the tensor it is; all else as it is."""
    return value.tensor if isinstance(value, ExactNumber) else value


def _arithmetic(name: str) -> Callable[..., Any]:
    def method(self: ExactNumber, *others: Any) -> Any:
        if not all(isinstance(other, (int, float)) for other in others):
            return NotImplemented
        result = getattr(torch.Tensor, name)(self.tensor, *(as_tensor(other) for other in others))
        return _number(result) if isinstance(result, ExactTensor) else bool(result)

    return method


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "pow", "rpow", "neg", "abs", "mod"):
    setattr(ExactNumber, f"__{_name}__", _arithmetic(f"__{_name}__"))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(ExactNumber, f"__{_name}__", _arithmetic(f"__{_name}__"))

# Functions of the module math that torch has under the same name, or the one given.
OF_MATH = {
    **{name: name for name in ("exp", "expm1", "log1p", "log2", "log10", "sqrt", "sin", "cos", "tan", "tanh", "cosh")},
    **{name: name for name in ("sinh", "erf", "atan", "pow", "lgamma")},
    "fabs": "abs",
}


def _of_math(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    def function(*numbers: Any) -> Any:
        if not any(isinstance(number, (ExactNumber, torch.Tensor)) for number in numbers):
            return original(*numbers)
        return _number(getattr(torch, name)(*(as_tensor(number) for number in numbers)))

    return function


def _logarithm(original: Callable[..., float]) -> Callable[..., Any]:
    def log(number: Any, *base: Any) -> Any:
        if not isinstance(number, (ExactNumber, torch.Tensor)):
            return original(number, *base)
        result = torch.log(as_tensor(number))
        return _number(result / torch.log(torch.tensor(float(base[0]))) if base else result)

    return log


@contextmanager
def mathematics() -> Iterator[None]:
    """While it lasts, ``math.exp`` and the like accept what :class:`ExactNumber` remembers; afterwards as before."""
    originals = {name: getattr(math, name) for name in (*OF_MATH, "log")}
    try:
        for name, ours in OF_MATH.items():
            setattr(math, name, _of_math(originals[name], ours))
        math.log = _logarithm(originals["log"])
        yield
    finally:
        for name, original in originals.items():
            setattr(math, name, original)


class Detours(TorchFunctionMode):
    """Sees the calls as they are written, above autograd."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in REPLACED:
            return REPLACED[func](*args, **kwargs)
        if args and isinstance(args[0], ExactTensor):
            if func is torch.Tensor.item:
                return _number(args[0])
            if func is torch.Tensor.tolist:
                return _listed(args[0])
        if func in (torch.tensor, torch.as_tensor, torch.Tensor.new_tensor):
            data = args[1] if func is torch.Tensor.new_tensor else args[0]
            if (made := _assembled(data)) is not None:
                return made.to(kwargs.get("dtype") or torch.get_default_dtype())
        args, kwargs = replaced((args, kwargs), ExactNumber, lambda number: number.tensor)
        return func(*args, **kwargs)


def _listed(tensor: torch.Tensor) -> Any:
    return _number(tensor) if tensor.dim() == 0 else [_listed(row) for row in tensor.detach().unbind(0)]


def _assembled(data: Any) -> torch.Tensor | None:
    """The tensor of nested lists in which some number remembers an element, None if none does."""
    if isinstance(data, ExactNumber):
        return data.tensor
    if not isinstance(data, (list, tuple)) or not _remembers(data):
        return None
    rows = [_assembled(row) for row in data]
    return torch.stack([torch.as_tensor(plain) if row is None else row for plain, row in zip(data, rows, strict=True)])


def _remembers(data: Any) -> bool:
    if isinstance(data, (list, tuple)):
        return any(_remembers(row) for row in data)
    return isinstance(data, ExactNumber)
