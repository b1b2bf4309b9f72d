"""The names that a function's code uses, and what they stand for: read from the code, nothing is run."""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any


@dataclass(frozen=True)
class Use:
    """``torch.distributed.get_rank``: the first name, the ``attributes`` after it, and the ``value`` that the first
    name stands for: a global, a variable of the function around, or what a local import binds; ``None`` for others."""

    name: str
    attributes: tuple[str, ...] = ()
    value: Any = None

    @property
    def names(self) -> tuple[str, ...]:
        return self.name, *self.attributes


def uses_of(function: FunctionType) -> Iterator[Use]:
    """In its code and that of the functions within it. Cost: linear in the code.

    >>> def opcode(x):
    ...     return dis.opname[x]
    >>> [(use.names, use.value is dis) for use in uses_of(opcode)]
    [(('dis', 'opname'), True), (('x',), False)]
    """
    codes = list(_codes(function.__code__))
    values = {**function.__globals__, **_around(function)}
    for code in codes:
        values |= _imported(list(dis.get_instructions(code)))
    for code in codes:
        yield from _used(code, values)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _used(code: CodeType, values: dict[str, Any]) -> Iterator[Use]:
    steps = list(dis.get_instructions(code))
    at = 0
    while at < len(steps):
        step, at = steps[at], at + 1
        if step.opname == "IMPORT_NAME" and step.argval not in sys.modules:
            yield Use(step.argval)  # not imported so far: what it binds is not known
        name = _loaded(step, code)
        if not name:
            continue
        attributes = []
        while at < len(steps) and _takes_attribute(steps[at]):
            attributes.append(steps[at].argval)
            at += 1
        yield Use(name, tuple(attributes), None if _takes_attribute(step) else values.get(name))


def _takes_attribute(step: dis.Instruction) -> bool:
    return step.opname in ("LOAD_ATTR", "LOAD_METHOD")


def _loaded(step: dis.Instruction, code: CodeType) -> str:
    """The name, "" where none is loaded, or only to be handed to a function within, whose own use of it is met."""
    if "LOAD_" not in step.opname or "CONST" in step.opname or step.opname == "LOAD_CLOSURE":
        return ""
    name = step.argval[-1] if isinstance(step.argval, tuple) else step.argval  # two loads in one, from 3.13 on
    shared = "FAST" in step.opname and name in (*code.co_cellvars, *code.co_freevars)
    return name if isinstance(name, str) and not shared else ""


def _around(function: FunctionType) -> dict[str, Any]:
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # still empty
            continue
    return found


def _imported(steps: list[dis.Instruction]) -> dict[str, Any]:
    """What the imports in a function bind, of modules that are there already."""
    found: dict[str, Any] = {}
    module, value, listed = "", None, False
    for before, step in zip([None, *steps], steps, strict=False):
        if step.opname == "IMPORT_NAME":
            module, listed = step.argval, before is not None and bool(before.argval)
            value = sys.modules.get(module.partition(".")[0])
        elif step.opname == "IMPORT_FROM":
            value = getattr(sys.modules.get(module), step.argval, None) if listed else sys.modules.get(module)
        elif step.opname.startswith("STORE_") and before is not None and before.opname.startswith("IMPORT_"):
            found[step.argval[0] if isinstance(step.argval, tuple) else step.argval] = value
    return found
