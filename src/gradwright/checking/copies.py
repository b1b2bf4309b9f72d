"""Fresh copies of one call's arguments.

NOTE [one structure]: an argument may be an object that holds the very Parameter that is also passed beside it
(torchdiffeq's adjoint: ``apply(func, y0, t, *params)``). Copied apart, the forward would no longer depend on the
Parameter that was passed, and every difference would be zero. So objects are deep-copied first, with one memo, and a
tensor argument that the memo knows is taken from there: it is *tied*. Other tensor arguments are copied each by
itself, so that two arguments which share memory are still two inputs.
"""

from __future__ import annotations

import copy
import types
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

import torch

_WIDER = {torch.complex64: torch.complex128, torch.complex32: torch.complex64}


def is_plain(value: Any) -> bool:
    """No tensor can hide in it: a number, a string, a dtype, a builtin ... or a container of such."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(is_plain(item) for item in value)
    if isinstance(value, dict):
        return all(is_plain(item) for item in value.values())
    if isinstance(value, types.FunctionType):
        return not value.__closure__ and not value.__defaults__ and not _global_state(value)
    if isinstance(value, types.BuiltinFunctionType):
        return not isinstance(value.__self__, torch.Tensor)
    atoms = (int, float, complex, str, bytes, type(None), type, torch.dtype, torch.device, torch.Generator, slice)
    return isinstance(value, atoms) or type(value).__module__ == "numpy"


def _global_state(function: types.FunctionType) -> bool:
    """Does it name a module or a tensor among its globals? Those can't be copied with the arguments."""
    named = (function.__globals__.get(name) for name in function.__code__.co_names)
    return any(isinstance(value, (torch.nn.Module, torch.Tensor)) for value in named)


def widened(dtype: torch.dtype, floor: torch.dtype | None) -> torch.dtype:
    """``dtype`` raised to at least ``floor`` (float32 or float64); as it is where it has no fraction."""
    if floor is None or not (dtype.is_floating_point or dtype.is_complex):
        return dtype
    if dtype.is_complex:
        return _WIDER.get(dtype, dtype) if floor is torch.float64 else dtype
    return floor if torch.finfo(dtype).eps > torch.finfo(floor).eps else dtype


def is_expanded(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and any(
        stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape, strict=True)
    )


def strided_copy(tensor: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    """A copy with the values and the strides of ``tensor``; differentiable; an expanded tensor stays expanded."""
    dtype = dtype or tensor.dtype
    if tensor.layout is not torch.strided or type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return tensor.clone().to(dtype)
    if is_expanded(tensor):
        shared = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in tensor.stride())
        return strided_copy(tensor[shared], dtype).expand(tensor.shape)
    if tensor.numel() > _reach(tensor):  # windows that overlap (unfold)
        return tensor.clone().to(dtype)
    fresh = torch.empty_strided(tensor.shape, tensor.stride(), dtype=dtype, device=tensor.device)
    return fresh.copy_(tensor)


class _Handed(torch.autograd.Function):
    """A copy inside a graph, through which a gradient of any layout passes (a plain copy's backward wants it dense)."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        return strided_copy(tensor)

    @staticmethod
    def backward(ctx: Any, cotangent: torch.Tensor) -> torch.Tensor:
        return cotangent


def copy_in_graph(leaf: torch.Tensor) -> torch.Tensor:
    """A differentiable copy that a forward may write into, with the values and the strides of ``leaf``."""
    if is_expanded(leaf) or type(leaf) is not torch.Tensor:
        return strided_copy(leaf)
    copied: torch.Tensor = _Handed.apply(leaf)  # type: ignore[no-untyped-call]  # torch has no types here
    return copied


def _reach(tensor: torch.Tensor) -> int:
    """How many elements of storage lie between the first and the last one, both counted."""
    if tensor.numel() == 0:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


@dataclass(frozen=True)
class Copy:
    """``args``, and what is known of them: ``tied`` indices; ``hidden``: objects holding tensors that are not tied,
    or that could not be copied (and so may hold anything)."""

    args: list[Any]
    tied: frozenset[int]
    hidden: tuple[str, ...]


def fresh_copy(args: Sequence[Any], floor: torch.dtype | None = None) -> Copy:
    """Copy ``args`` as one structure, floating-point tensors raised to at least ``floor``. See NOTE [one structure].

    Objects that can't be copied are handed on as they are. Cost: a copy of every tensor reached.
    """
    memo: dict[int, Any] = {}
    result: list[Any] = list(args)
    hidden: list[str] = []
    for index, value in enumerate(args):
        if isinstance(value, torch.Tensor) or is_plain(value):
            continue
        if isinstance(value, types.FunctionType) and _global_state(value):
            hidden.append(value.__name__)
        try:
            result[index] = _copied(value, memo)
        except Exception:  # locks, files, process groups, tensors inside a graph: any class may refuse to be copied
            hidden.append(type(value).__name__)
    originals = [item for item in memo.get(id(memo), []) if isinstance(item, torch.Tensor)]
    pairs = [(original, memo[id(original)]) for original in originals]
    for _, twin in pairs:
        twin.grad = None
        twin.data = twin.data.to(widened(twin.dtype, floor))
    tied = set()
    for index, value in enumerate(args):
        if not isinstance(value, torch.Tensor):
            continue
        twin = next((twin for original, twin in pairs if _same_memory(original, value)), None)
        if twin is not None:
            tied.add(index)
            result[index] = twin
        else:
            with torch.no_grad():
                fresh = strided_copy(value.detach(), widened(value.dtype, floor))
            result[index] = torch.nn.Parameter(fresh, False) if isinstance(value, torch.nn.Parameter) else fresh
    loose = [original for original, _ in pairs if not any(_same_memory(original, args[index]) for index in tied)]
    if loose:
        hidden += [
            type(value).__name__ for value in args if not isinstance(value, torch.Tensor) and not is_plain(value)
        ]
    return Copy(result, frozenset(tied), tuple(dict.fromkeys(hidden)))


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    """``copy.deepcopy``, which also goes into what a function closes over."""
    if isinstance(value, types.FunctionType) and value.__closure__:
        if id(value) in memo:
            return memo[id(value)]
        cells = tuple(types.CellType() for _ in value.__closure__)
        twin = types.FunctionType(value.__code__, value.__globals__, value.__name__, value.__defaults__, cells)
        twin.__kwdefaults__ = value.__kwdefaults__
        memo[id(value)] = twin
        for cell, original in zip(cells, value.__closure__, strict=True):
            cell.cell_contents = _copied(original.cell_contents, memo)
        return twin
    return copy.deepcopy(value, memo)


def _same_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one is other:
        return True
    if one.layout is not torch.strided or other.layout is not torch.strided or one.numel() == 0:
        return False
    return (
        one.data_ptr() == other.data_ptr()
        and one.shape == other.shape
        and one.stride() == other.stride()
        and one.dtype == other.dtype
    )


def moved(tensor: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    """``tensor``, changed in place where it is not expanded, with ``shift`` (flat, real numbers) added."""
    if is_expanded(tensor):
        tensor = tensor.contiguous()
    real = torch.view_as_real(tensor.data) if tensor.is_complex() else tensor.data
    real.add_(shift.reshape(real.shape).to(real))
    return tensor


class Source:
    """Where every call's fresh arguments come from.

    Tensors and plain values are copied and widened once, into ``args``, so that a call costs one copy more; where an
    object may hold tensors, everything is copied anew for each call (NOTE [one structure]).
    """

    def __init__(self, original: Sequence[Any], floor: torch.dtype | None) -> None:
        self.original, self.floor = list(original), floor
        first = fresh_copy(self.original, floor)
        self.args, self.tied, self.hidden = first.args, first.tied, first.hidden
        self.simple = all(isinstance(value, torch.Tensor) or is_plain(value) for value in self.original)
        self.dense = frozenset(index for index, value in enumerate(self.args) if _is_dense(value))

    def fresh(self, without: Container[int] = ()) -> list[Any]:
        """A call's arguments. Of those in ``without``, what ``in_graph`` takes."""
        if not self.simple:
            return fresh_copy(self.original, self.floor).args
        return [
            value
            if not isinstance(value, torch.Tensor) or (index in without and index in self.dense)
            else self._copy(index)
            for index, value in enumerate(self.args)
        ]

    def _copy(self, index: int) -> torch.Tensor:
        value = self.args[index]
        with torch.no_grad():
            fresh = value.clone() if index in self.dense else strided_copy(value)
        return torch.nn.Parameter(fresh, False) if isinstance(value, torch.nn.Parameter) else fresh

    def in_graph(
        self, index: int, leaf: torch.Tensor, shift: torch.Tensor | None, step: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(The tensor whose gradient is asked for, the argument), of what ``fresh`` gave and ``step * shift`` added."""
        if self.simple and index in self.dense:
            # the leaf is the one private copy: no call ever sees its memory, and one pass makes leaf and shift an input
            leaf = leaf.detach().requires_grad_()
            if shift is None:
                return leaf, leaf.clone()
            return leaf, torch.add(leaf, shaped_like(shift, leaf), alpha=step)
        if shift is not None:
            leaf = moved(leaf, step * shift)
        leaf = leaf.requires_grad_()
        if index in self.tied or isinstance(leaf, torch.nn.Parameter):
            return leaf, leaf
        argument = copy_in_graph(leaf)
        return (argument if is_expanded(leaf) else leaf), argument


def _is_dense(value: Any) -> bool:
    """A plain tensor of which ``clone`` keeps the strides."""
    return (
        type(value) is torch.Tensor
        and value.layout is torch.strided
        and (value.is_contiguous() or torch.ops.aten.is_non_overlapping_and_dense(value))
    )


def shaped_like(shift: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """Flat real numbers with the shape, strides, dtype and device of ``tensor``."""
    if tensor.is_complex():
        shaped = torch.view_as_complex(shift.reshape(*tensor.shape, 2)).to(tensor)
    else:
        shaped = shift.reshape(tensor.shape).to(tensor)
    return shaped if shaped.stride() == tensor.stride() else torch.empty_like(tensor).copy_(shaped)
