"""What an elementwise function is: its formula, and what becomes of the elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch

from gradwright.ground.torch_versions.dynamo import constant_in_traces
from gradwright.kernels.autograd.traced import TorchCode, torch_code_of
from gradwright.kernels.calls.reduction import axes_of
from gradwright.kernels.formula.expression import Expression, condition, constant, number, where
from gradwright.kernels.formula.program import Program

Reduction = Literal["none", "sum", "mean"]


@dataclass(frozen=True, eq=False)
class Definition:
    """``names``: of the inputs, in the order of a call; ``defaults``: of those that may be left out. ``text``: the
    formula as it was written. ``dim``: the axes that are reduced; ``None`` for all."""

    name: str
    names: tuple[str, ...]
    output: Expression
    text: str
    defaults: Mapping[str, float]
    reduction: Reduction = "none"
    dim: tuple[int, ...] | None = None
    keepdim: bool = False
    accumulate: torch.dtype = torch.float32
    _programs: dict[tuple[bool, bool], Program] = field(default_factory=dict, init=False)
    # Of torch.compile: by ``weighted + 2 * masked``, once they are asked for; see NOTE [Constants of Dynamo].
    codes: list[TorchCode | None] = field(default_factory=lambda: [None] * 4, init=False)
    make_code: Callable[[bool, bool], bool] = field(init=False)
    is_summed: Callable[[int], tuple[bool, ...]] = field(init=False)

    def __post_init__(self) -> None:
        @constant_in_traces
        def make_code(weighted: bool, masked: bool) -> bool:
            """Of the formula with what is folded into it, where there is none yet."""
            place = weighted + 2 * masked
            if self.codes[place] is None:
                self.codes[place] = torch_code_of(self.program(weighted, masked))
            return True

        @constant_in_traces
        def is_summed(ndim: int) -> tuple[bool, ...]:
            """Of each axis of a value of that many."""
            axes = axes_of((1,) * ndim, self.dim, self.keepdim, f"a call of {self.name}").reduced
            return tuple(axis in axes for axis in range(ndim))

        object.__setattr__(self, "make_code", make_code)
        object.__setattr__(self, "is_summed", is_summed)

    def program(self, weighted: bool, masked: bool) -> Program:
        """The formula with what is folded into it, as inputs behind its own.

        An element that is masked out is exactly 0, and so is its gradient, whatever the formula is there: it is a
        branch not taken.
        """
        known = self._programs.get((weighted, masked))
        if known is not None:
            return known
        output, names = self.output, list(self.names)
        if weighted:
            output = number("weight") * output
            names.append("weight")
        if masked:
            output = where(condition("mask"), output, constant(0.0))
            names.append("mask")
        program = Program(tuple(names), (output,), frozenset({"mask"} if masked else ()))
        return self._programs.setdefault((weighted, masked), program)


def counting(weighted: bool, masked: bool) -> Program:
    """What a mean is divided by, for each element: its weight, 0 where it is masked out."""
    return _COUNTING[weighted, masked]


def _counting(weighted: bool, masked: bool) -> Program:
    each = number("weight") if weighted else constant(1.0)
    names = [name for name, is_there in (("weight", weighted), ("mask", masked)) if is_there]
    output = where(condition("mask"), each, constant(0.0)) if masked else each
    return Program(tuple(names), (output,), frozenset({"mask"} if masked else ()))


_COUNTING = {(w, m): _counting(w, m) for w, m in ((True, False), (False, True), (True, True))}
