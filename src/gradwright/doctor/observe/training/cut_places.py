"""Where the way from parameters to the loss is cut: one step under a function mode, once they are known to be missed.

NOTE [what counts as a cut]: a call that is given something with a graph that leads to a missed parameter, and gives
something without a graph: `detach()`, `.data`, `numpy()`, `item()`, `torch.tensor(...)`, a comparison, `argmax`. Such
calls are many and harmless (a number that is printed); so what becomes of their results is followed, through operations
without a graph, to the first one that has one again. Only where that one is behind the loss was the cut on the way.
Through Python and NumPy the values themselves are followed; where NumPy computed with them, the next array that the
same function turns into a tensor is taken for theirs.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch
from torch import Tensor

from gradwright.doctor.observe.guard import OnFault
from gradwright.doctor.observe.training.one_step import OneStep, name_of
from gradwright.doctor.observe.training.root_text import expression_at
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.places import location_in, user_frame
from gradwright.ground.graphs import graph_of
from gradwright.ground.torch_versions.engine import sequence_number

_TO_PYTHON = frozenset({"numpy", "array", "item", "tolist", "float", "int"})
_FROM_PYTHON = frozenset({"tensor", "as_tensor", "from_numpy"})
_WALKS, _NODES = 400, 2000  # graphs that are asked whether they lead to what is missed; how far each
_KEPT = 4096
_NESTED = 3


@dataclass(frozen=True)
class Cut:
    """A call, by which of the missed parameters are behind it (by id)."""

    code: CodeType
    instruction: int
    line: int
    reaches: frozenset[int]

    @property
    def location(self) -> Location:
        return location_in(self.code, self.instruction, self.line)

    @property
    def text(self) -> str:
        return expression_at(self.location, longest=60)


class CutPlaces(OneStep):
    """``start`` it with what is missed; ``behind(root)`` before a backward; ``stop`` it before the step."""

    def __init__(self, on_fault: OnFault) -> None:
        super().__init__(on_fault)
        self._missed: frozenset[int] = frozenset()
        self._walks = 0
        self._tensors: dict[int, tuple[weakref.ref[Any], Cut]] = {}
        self._values: dict[int, tuple[Any, Cut]] = {}  # numbers and lists, which the script may drop
        self._in_python: Cut | None = None
        self._joined: list[tuple[int, Cut]] = []
        self._restore: Callable[[], None] | None = None

    def begin(self, missed: Iterable[int]) -> bool:
        """Whether it looks on, for parameters by their ids."""
        self._missed = frozenset(missed)
        if not self.start():
            return False
        if self._restore is None:  # the only one of its kind that modes are not told of
            original = torch.from_numpy
            torch.from_numpy = self._watched(original)
            self._restore = functools.partial(setattr, torch, "from_numpy", original)
        return True

    def _watched(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def from_numpy(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if self._left > 0:
                self._write(original, args, kwargs, result)
            return result

        return from_numpy

    def forget(self) -> None:
        self._walks, self._in_python = _WALKS, None
        for known in (self._tensors, self._values, self._joined):
            known.clear()

    def stop(self) -> None:
        super().stop()
        if self._restore is not None:
            self._restore()
            self._restore = None
        self.forget()

    def behind(self, root: Tensor) -> list[Cut]:
        """The cuts on the way to this loss, the first made first."""
        if not self._joined:
            return []
        numbers = {sequence_number(node) for node in graph_of([root], most=10 * _NODES)}
        return list(dict.fromkeys(cut for number, cut in self._joined if number in numbers))

    def note(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        name = name_of(func)
        if name == "get" and getattr(getattr(func, "__self__", None), "__name__", "") == "grad":
            return
        given = list(_flat((*args, *kwargs.values())))
        made = [args[0]] if name == "setitem" else list(_flat((result,))) if isinstance(result, Tensor | tuple) else []
        made = [one for one in made if isinstance(one, Tensor)]
        with_graph = [one for one in made if one.requires_grad]
        cut = self._held(given)
        if not with_graph and (made or name in _TO_PYTHON):
            cut = self._cut(given) or cut or self._from_python(name, made)
        if cut is None:
            return
        if name in _TO_PYTHON:
            self._in_python = cut
            self._keep(result, cut)
        for one in made:
            if not one.requires_grad:
                self._keep(one, cut)
            elif one.grad_fn is not None and len(self._joined) < _KEPT:
                self._joined.append((sequence_number(one.grad_fn), cut))

    def _held(self, given: Iterable[Any]) -> Cut | None:
        for one in given:
            known = self._tensors.get(id(one))
            if known is not None and known[0]() is one:
                return known[1]
            kept = self._values.get(id(one))
            if kept is not None and kept[0] is one:
                return kept[1]
        return None

    def _keep(self, one: Any, cut: Cut) -> None:
        if len(self._tensors) + len(self._values) >= _KEPT:
            return
        try:
            self._tensors[id(one)] = weakref.ref(one), cut
        except TypeError:
            if isinstance(one, float | list):
                self._values[id(one)] = one, cut

    def _cut(self, given: Iterable[Any]) -> Cut | None:
        reaches: set[int] = set()
        for one in given:
            if isinstance(one, Tensor) and one.requires_grad and self._walks > 0:
                self._walks -= 1
                reaches |= self._missed & _leaves(one)
        frame = user_frame(3) if reaches else None
        return Cut(frame.f_code, frame.f_lasti, frame.f_lineno, frozenset(reaches)) if frame is not None else None

    def _from_python(self, name: str, made: Collection[Tensor]) -> Cut | None:
        """See NOTE [what counts as a cut]: NumPy computed with it."""
        before = self._in_python
        if before is None or name not in _FROM_PYTHON or not all(one.is_floating_point() for one in made):
            return None
        frame = user_frame(3)
        return before if frame is not None and frame.f_code is before.code else None


def _flat(given: Any, depth: int = _NESTED) -> Iterator[Any]:
    for one in given:
        if type(one) in (tuple, list) and depth:
            yield one
            yield from _flat(one, depth - 1)
        else:
            yield one


def _leaves(one: Tensor) -> set[int]:
    if one.grad_fn is None:
        return {id(one)}
    return {id(leaf) for node in graph_of([one], most=_NODES) if (leaf := getattr(node, "variable", None)) is not None}
