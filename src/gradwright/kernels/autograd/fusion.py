"""A launch with its shapes, and the launches that its derivatives are.

NOTE [Closed under derivatives]: the vjp of "formulas per element, of inputs that broadcast, each result whole or summed
over some axes" is the same kind of thing. Where an input was broadcast its cotangent is summed, and where a result was
summed its cotangent broadcasts. So is the jvp, and so is either under vmap, with one axis more. One primitive is
therefore differentiable to any order.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gradwright.ground.torch_versions.capability import require
from gradwright.ground.torch_versions.levels import FORWARD, TRANSFORMS
from gradwright.ground.torch_versions.modes import DISPATCH, STATES, get_tracing_state, len_torch_dispatch_stack
from gradwright.ground.torch_versions.tensors import is_zerotensor
from gradwright.kernels.formula.program import Program
from gradwright.kernels.launch.plain import PlainLaunch
from gradwright.kernels.launch.results import Operand, Result
from gradwright.kernels.launch.run import Launch, launch_of
from gradwright.kernels.machine.compiling import is_suspended

Shape = tuple[int, ...]
Key = tuple[Any, ...]

MANY_LAYOUTS = 64
_PLAIN = (Tensor, torch.nn.Parameter)


class Meta(NamedTuple):
    """What is known of a tensor before it is there."""

    shape: Shape
    dtype: torch.dtype


class Output(NamedTuple):
    """One result. ``kept``: as many axes as the full shape, 1 where it is summed; the caller gets it without the axes
    ``removed``.

    ``scaled``: it is multiplied by a factor of the call. ``like``: the operand that it is the gradient of, whose
    strides it takes.
    """

    kept: Shape
    dtype: torch.dtype
    removed: tuple[int, ...] = ()
    scaled: bool = False
    like: int | None = None


class Fusion:
    """A program over operands of known shapes (``None``: a Python number), broadcast to the shape ``full``.

    A call's operands are the program's, then one factor for each output that is ``scaled``: a Python number, or a
    tensor without axes; it has no derivative. ``precision``: float32 or float64, in which is computed.
    """

    def __init__(
        self,
        program: Program,
        full: Shape,
        metas: Sequence[Meta | None],
        outputs: Sequence[Output],
        precision: torch.dtype,
    ) -> None:
        require(TRANSFORMS, FORWARD, STATES, DISPATCH)
        self.program = program
        self.full = full
        self.metas = tuple(metas)
        self.outputs = tuple(outputs)
        self.precision = precision
        self.count = len(self.metas)  # of operands, without the factors
        self.scaled = tuple(output.scaled for output in outputs)
        self._last: tuple[Any, Sequence[Result]] = (None, ())  # factors, and what was asked with them
        self._tensors = [place for place, meta in enumerate(metas) if meta is not None]
        self._launches: dict[Key, Launch] = {}
        self._derived: dict[Any, Fusion] = {}

    def run(self, operands: Sequence[Any]) -> tuple[Tensor, ...]:
        """The results, without a graph: new tensors, and no views."""
        if len_torch_dispatch_stack() or get_tracing_state() is not None:
            return self.run_plainly(operands, "torch's operations are watched")
        values, key = self._read(operands)
        results = self._asked(operands, key)
        return self._launch(values, key, results).run(values, results)

    def run_plainly(self, operands: Sequence[Any], why: str) -> tuple[Tensor, ...]:
        """The same by torch's operations: for tensors without numbers of their own, and whoever records operations."""
        launch = PlainLaunch(self.program, self.precision, why)
        return launch.run(operands[: self.count], self._results(operands[self.count :], operands, False))

    def launch(self, operands: Sequence[Any]) -> Launch:
        """What ``run`` runs."""
        values, key = self._read(operands)
        return self._launch(values, key, self._asked(operands, key))

    def _read(self, operands: Sequence[Any]) -> tuple[list[Any], Key]:
        """The operands without the factors, their numbers where a kernel looks for them (torch negates, and makes
        zeros, when they are needed), and how they are unlike plain contiguous tensors."""
        values = list(operands[: self.count])
        key: Key = ()
        for place in self._tensors:
            tensor = values[place]
            if tensor.is_neg() or is_zerotensor(tensor):
                tensor = values[place] = tensor.resolve_neg().clone()
            if not tensor.is_contiguous():
                key = (*key, place, tensor.stride())
            if type(tensor) not in _PLAIN:
                key = (*key, place, type(tensor))
        return values, key

    def _launch(self, values: Sequence[Any], key: Key, results: Sequence[Result]) -> Launch:
        launch = self._launches.get(key)
        if launch is None:
            launch = launch_of(self.program, values, results, self.precision)
            if len(self._launches) < MANY_LAYOUTS and not is_suspended():
                self._launches[key] = launch
        return launch

    def _asked(self, operands: Sequence[Any], key: Key) -> Sequence[Result]:
        factors = tuple(operands[self.count :])
        if key or any(type(factor) is not float for factor in factors):
            return self._results(factors, operands, bool(key))
        known, results = self._last
        if known != factors:
            results = self._results(factors, operands, False)
            self._last = factors, results
        return results

    def _results(self, factors: Sequence[Any], operands: Sequence[Any], strided: bool) -> Sequence[Result]:
        of_scaled = iter(factors)
        return [
            Result(
                output.kept,
                output.dtype,
                next(of_scaled) if output.scaled else None,
                operands[output.like] if strided and output.like is not None else None,
                output.removed,
            )
            for output in self.outputs
        ]

    def back(self, arrived: tuple[bool, ...], wanted: tuple[bool, ...]) -> Fusion:
        """The gradients of the wanted operands. Its operands: this one's, the cotangents that arrived (with the axes of
        ``kept``), the factors of their outputs."""
        found = self._derived.get((arrived, wanted))
        if found is None:
            chosen = [output for output, has_come in zip(self.outputs, arrived, strict=True) if has_come]
            scaled = tuple(output.scaled for output in chosen)
            metas = [*[Meta(output.kept, output.dtype) for output in chosen], *[None] * sum(scaled)]
            program = _vjp(self.program, arrived, wanted, scaled)
            found = self._with(program, (*self.metas, *metas), self._gradients(wanted))
            self._derived[arrived, wanted] = found
        return found

    def both(self, wanted: tuple[bool, ...]) -> Fusion:
        """The only output, which is a scalar, and the gradients of the wanted operands, in one pass. Its operands: this
        one's, the cotangent and (where the output is scaled) the factor as numbers; then the factor as such."""
        found = self._derived.get(wanted)
        if found is None:
            program = _value_and_vjp(self.program, wanted, self.scaled)
            metas = (*self.metas, *[None] * (1 + sum(self.scaled)))
            found = self._derived[wanted] = self._with(program, metas, (*self.outputs, *self._gradients(wanted)))
        return found

    def forward(self, given: tuple[bool, ...]) -> Fusion:
        """The tangents of the outputs. Its operands: this one's, the tangents that are given, the factors."""
        key = ("forward", given)
        found = self._derived.get(key)
        if found is None:
            tangents = [meta for meta, is_given in zip(self.metas, given, strict=True) if is_given]
            found = self._with(_jvp(self.program, given), (*self.metas, *tangents), self.outputs)
            self._derived[key] = found
        return found

    def batched(self, size: int, is_batched: tuple[bool, ...]) -> Fusion:
        """The same for a batch of calls, along an axis in front of all others; its operands are ``lined_up``."""
        key = (size, is_batched)
        found = self._derived.get(key)
        if found is None:
            metas = [
                Meta((size, *self.padded(meta.shape)), meta.dtype) if meta is not None and has_batch else meta
                for meta, has_batch in zip(self.metas, is_batched, strict=True)
            ]
            outputs = [
                Output((size, *output.kept), output.dtype, tuple(axis + 1 for axis in output.removed), output.scaled)
                for output in self.outputs
            ]
            found = self._derived[key] = Fusion(self.program, (size, *self.full), metas, outputs, self.precision)
        return found

    def lined_up(self, operand: Operand, axis: int | None) -> Operand:
        """An operand of a batch of calls: the batch's axis in front, its own where they meet those of the others."""
        if axis is None or not isinstance(operand, Tensor):
            return operand
        operand = operand.movedim(axis, 0)
        for _ in range(len(self.full) + 1 - operand.ndim):
            operand = operand.unsqueeze(1)
        return operand

    def padded(self, shape: Sequence[int]) -> Shape:
        """The shape with as many axes as the full one."""
        return (1,) * (len(self.full) - len(shape)) + tuple(shape)

    def _with(self, program: Program, metas: Sequence[Meta | None], outputs: Sequence[Output]) -> Fusion:
        return Fusion(program, self.full, metas, outputs, self.precision)

    def _gradients(self, wanted: Sequence[bool]) -> list[Output]:
        return [
            Output(
                self.padded(meta.shape),
                meta.dtype,
                removed=tuple(range(len(self.full) - len(meta.shape))),
                like=place if meta.shape == self.full else None,
            )
            for place, (meta, is_wanted) in enumerate(zip(self.metas, wanted, strict=True))
            if meta is not None and is_wanted
        ]


# The same formula is met with many shapes; its derivatives are the same for all of them.


@functools.lru_cache(maxsize=1_024)
def _vjp(program: Program, arrived: tuple[bool, ...], wanted: tuple[bool, ...], scaled: tuple[bool, ...]) -> Program:
    outputs = tuple(output for output, has_come in zip(program.outputs, arrived, strict=True) if has_come)
    return Program(program.inputs, outputs, program.conditions).vjp(wanted, scaled)


@functools.lru_cache(maxsize=1_024)
def _value_and_vjp(program: Program, wanted: tuple[bool, ...], scaled: tuple[bool, ...]) -> Program:
    return program.and_vjp(wanted, scaled)


@functools.lru_cache(maxsize=1_024)
def _jvp(program: Program, given: tuple[bool, ...]) -> Program:
    return program.jvp(given)
