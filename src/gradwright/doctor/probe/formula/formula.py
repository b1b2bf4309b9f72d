"""The formula of a recorded call: lines of text that can be read, and evaluated."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gradwright.doctor.probe.formula.recording import Recorded
from gradwright.doctor.probe.formula.simpler import Simplifier
from gradwright.doctor.probe.formula.values import NoFormula, Value, in_order
from gradwright.doctor.probe.formula.writing import LONGEST, Writer, is_free

MOST_LINES = 12
SHORT = 72  # so short a gradient is said in inputs alone, whatever the forward's lines have names for


@dataclass(frozen=True)
class Formula:
    """``forward``: assignments; ``results``: the names of the outputs; ``cotangents``: by the place
    of their output among all that is returned. ``gradients``: by the
    input's place, assignments and then an expression. ``functions``: where the names that are called are found."""

    forward: tuple[str, ...]
    results: tuple[str, ...]
    cotangents: Mapping[int, str]
    gradients: dict[int, tuple[str, ...]]
    functions: Mapping[str, str]
    outside: Mapping[str, Tensor]

    def scope(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The names after the forward's lines have run on ``given``. Nothing of it is a text of the user's."""
        scope = {"__builtins__": {}, **{name: _found(dotted) for name, dotted in self.functions.items()}}
        scope |= {**self.outside, **{name: as_tensor(value) for name, value in given.items()}}
        exec(compile("\n".join(self.forward), "<formula>", "exec"), scope)
        return scope

    def gradient(self, place: int, scope: Mapping[str, Any], cotangents: Mapping[str, Tensor], like: Tensor) -> Tensor:
        """Of one input. Raises: NoFormula, if it has not its shape."""
        own = {**scope, **cotangents}
        *lines, last = self.gradients[place]
        exec(compile("\n".join(lines), "<formula>", "exec"), own)
        found = eval(compile(last, "<formula>", "eval"), own)
        if not isinstance(found, Tensor):
            found = torch.full_like(like, found)
        if found.shape != like.shape:
            raise NoFormula("another shape than the input's")
        return found


def as_tensor(value: Any) -> Any:
    """A number as a tensor, which has a tensor's methods and is a name in the formula."""
    if type(value) is float:
        return torch.tensor(value, dtype=torch.float64)
    return torch.tensor(value) if type(value) is int and abs(value) < 2**62 else value


def _found(dotted: str) -> Any:
    return functools.reduce(getattr, dotted.split(".")[1:], torch)


def formula_of(recorded: Recorded, names: Mapping[int, str]) -> Formula:
    """``names``: of the arguments, by place. A gradient that has no short formula is left out.

    Raises: NoFormula, if the forward has none.
    """
    simpler = Simplifier()
    outputs = [simpler.of(value) for value in recorded.outputs]
    cotangents = {place: value.name for place, value in recorded.cotangents.items()}
    taken = [*names.values(), *cotangents.values(), *recorded.outside]
    if len(set(taken)) != len(taken) or not all(is_free(name, set()) for name in taken):
        raise NoFormula("names that can't be told apart")
    writer = Writer([*taken, "torch"])
    writer.shapes = [(value.shape, value.name) for value in _inputs(recorded)]
    known: dict[Value, str] = {}
    lines, results = _forward(writer, outputs, known)
    gradients: dict[int, tuple[str, ...]] = {}
    shapes, own = writer.shapes, set(writer.taken)
    for place, value in recorded.gradients.items():
        writer.taken = {*own}
        writer.shapes = sorted(shapes, key=lambda shape: shape[1] != names[place])
        try:
            gradients[place] = ("0",) if value is None else _gradient(writer, simpler.of(value), known)
        except NoFormula:
            continue
    functions = {"torch": "torch", **writer.functions}
    return Formula(tuple(lines), tuple(results), cotangents, gradients, functions, recorded.outside)


def _forward(writer: Writer, outputs: list[Value], known: dict[Value, str]) -> tuple[list[str], list[str]]:
    lines: list[str] = []
    results: list[str] = []
    for place, value in enumerate(outputs):
        if value in known:
            results.append(known[value])
            continue
        plain = ["y", "output", "result"] if len(outputs) == 1 else [f"y{place}", f"output_{place}"]
        name = writer.name(value, [*([value.name] if value.name and not value.is_leaf else []), *plain])
        text = writer.nested(value, known, LONGEST - len(name) - 3)
        lines += [f"{name} = {text}"] if text is not None else writer.statements(value, known, name)
        if not value.is_leaf:
            known[value] = name
        results.append(name)
    if len(lines) > MOST_LINES:
        raise NoFormula("many lines")
    return lines, results


def _gradient(writer: Writer, value: Value, known: dict[Value, str]) -> tuple[str, ...]:
    """In inputs alone where that is short; with the forward's names where it is not; over several lines at last."""
    if value.called == "zeros_like":
        return ("0",)
    alone = writer.nested(value, {})
    if alone is not None and len(alone) <= SHORT:
        return (alone,)
    one = writer.nested(value, known)
    if one is None or (alone is not None and len(alone) <= len(one)):
        one = alone
    lines = [one] if one is not None else writer.statements(value, {**known})
    if len(lines) > MOST_LINES:
        raise NoFormula("many lines")
    return tuple(lines)


def _inputs(recorded: Recorded) -> list[Value]:
    found = [value for value in recorded.gradients.values() if value is not None]
    return [value for value in in_order([*recorded.outputs, *found]) if value.op == "input"]
