"""Every operation that one function's body dispatches, with the place in the text, what went in and what came out."""

from __future__ import annotations

import ast
import functools
import itertools
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor

from gradwright.doctor.source.seen import Key
from gradwright.ground.operations import only_views
from gradwright.ground.tensors import tensor_bytes, tensors_in, wait_for
from gradwright.ground.torch_versions.modes import TorchDispatchMode

MOST_OPERATIONS = 2_000  # of one call: beyond it the body is a loop, which is another rule's matter


class TooManyError(Exception):
    """The body dispatches more operations than are worth looking at one by one."""


@dataclass(frozen=True)
class Dispatched:
    """One operation. ``name`` is torch's (``aten.mul.Tensor``), ``fresh`` whether its result is new memory.

    The tensors are kept, so that two that share memory are told from two that had it one after the other.
    """

    name: str
    place: Key
    args: tuple[Any, ...]
    given: tuple[Tensor, ...]
    made: tuple[Tensor, ...]
    fresh: bool
    seconds: float

    @property
    def bytes(self) -> int:
        """Read and written."""
        return sum(map(tensor_bytes, self.given)) + self.made_bytes if self.moves else 0

    @property
    def made_bytes(self) -> int:
        return sum(map(tensor_bytes, self.made)) if self.moves else 0

    moves: bool = True


@dataclass
class Body:
    """What one call of a function dispatched, in order."""

    operations: list[Dispatched] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def bytes(self) -> int:
        return sum(operation.bytes for operation in self.operations)

    def within(self, node: ast.AST) -> list[Dispatched]:
        """The operations of an expression or statement and of everything in it."""
        return [operation for operation in self.operations if _inside(operation.place, node)]

    def at(self, node: ast.AST) -> list[Dispatched]:
        """Those of the expression itself, not of its parts."""
        end = (node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]  # expressions have them
        return [one for one in self.within(node) if one.place[2:] == end and _is_of(one.place, node)]


def _inside(place: Key, node: ast.AST) -> bool:
    start = (node.lineno, node.col_offset)  # type: ignore[attr-defined]  # expressions and statements have them
    end = (node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]  # expressions have them
    return start <= place[:2] and place[2:] <= end


def _is_of(place: Key, node: ast.AST) -> bool:
    """Python gives a method call that is written on several lines the line of the method's name to begin with."""
    if place[:2] == (node.lineno, node.col_offset):  # type: ignore[attr-defined]  # expressions have them
        return True
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and place[0] == node.func.end_lineno


class _Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's __init_subclass__
    def __init__(self, code: CodeType, found: Body) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own
        self._code, self._found = code, found

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # as in tracing: the wrapper that skips it imports torch._dynamo

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        started = time.perf_counter()
        result = func(*args, **(kwargs or {}))
        made = tuple(tensors_in(result))
        wait_for(made)
        seconds = time.perf_counter() - started
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code is not self._code:
            frame = frame.f_back
        if frame is None:
            return result
        if len(self._found.operations) >= MOST_OPERATIONS:
            raise TooManyError
        given = tuple(tensors_in(list(args), 2))
        old = {_memory(tensor) for tensor in given}
        self._found.operations.append(
            Dispatched(
                name=str(func),
                place=_place(self._code, frame.f_lasti),
                args=tuple(args),
                given=given,
                made=made,
                fresh=bool(made) and all(_memory(tensor) not in old for tensor in made),
                seconds=seconds,
                moves=not only_views(func),
            )
        )
        return result


@functools.lru_cache(maxsize=4096)
def _place(code: CodeType, instruction: int) -> Key:
    first, last, column, end_column = next(
        itertools.islice(code.co_positions(), instruction // 2, None), (None, None, None, None)
    )
    return first or 0, column or 0, last or 0, end_column or 0


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr() if tensor.layout is torch.strided else id(tensor)


def same_memory(one: Tensor, other: Tensor) -> bool:
    """Whether two live tensors are the same numbers: one storage, one place in it, one layout."""
    if one is other or one.layout is not torch.strided or other.layout is not torch.strided:
        return one is other
    mine, theirs = ((t.shape, t.stride(), t.storage_offset()) for t in (one, other))
    return _memory(one) == _memory(other) and mine == theirs


def quickest(bodies: Sequence[Body]) -> Body:
    """The first of several runs of one body, each operation with the least time it took in any: others were disturbed.

    Runs that dispatched something else (a function that remembers) are left out.
    """
    first = bodies[0]
    names = [one.name for one in first.operations]
    alike = [body for body in bodies if [one.name for one in body.operations] == names]
    least = [min(times) for times in zip(*([one.seconds for one in body.operations] for body in alike), strict=True)]
    steps = [replace(step, seconds=seconds) for step, seconds in zip(first.operations, least, strict=True)]
    return Body(steps, min(body.seconds for body in alike))


def watch_body(code: CodeType, work: Callable[[], object]) -> Body:
    """Run ``work`` and write down what the function of this code dispatches, itself or through what it calls.

    Cost: a Python call per operation; every tensor on the way is kept until the result goes. Raises: TooManyError,
    and what ``work`` raises.
    """
    found = Body()
    started = time.perf_counter()
    with _Watching(code, found):
        work()
    found.seconds = time.perf_counter() - started
    return found
