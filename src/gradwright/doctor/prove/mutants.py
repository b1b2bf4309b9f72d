"""Mutants of a candidate: each changes one thing on the lines that the candidate changed.

A proof that lets one of them pass would let a wrong candidate pass as well.
"""

from __future__ import annotations

import ast
import pickle
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from gradwright.doctor.prove.mutations import NO_TENSORS, faults_of, roles_in

LIMIT = 40
MOST_NAMED = 26

T = TypeVar("T", bound=ast.AST)


@dataclass(frozen=True)
class Mutant(Generic[T]):
    """``definition`` is the candidate's code with the fault, ``what`` the fault in words."""

    what: str
    definition: T


@dataclass(frozen=True)
class _Fault:
    index: int
    what: str
    new: ast.AST
    named: bool


def mutants(
    definition: T, lines: Sequence[int], limit: int = LIMIT, no_tensors: Collection[str] = ()
) -> Iterator[Mutant[T]]:
    """Up to ``limit`` mutants of the statements that stand on ``lines``: the kinds of fault that proofs are known to
    miss, then the others, spread evenly over all there are. ``no_tensors``: names of modules and functions."""
    wanted = frozenset(lines)
    roles = roles_in(definition)
    skipped = NO_TENSORS | set(no_tensors)
    found = []
    for index, node in enumerate(ast.walk(definition)):
        if not wanted.isdisjoint(_lines(node)):
            found += [_Fault(index, what, new, named) for what, new, named in faults_of(node, roles, skipped)]
    chosen = _spread([fault for fault in found if fault.named], min(MOST_NAMED, limit))
    chosen += _spread([fault for fault in found if not fault.named], limit - len(chosen))
    written = pickle.dumps(definition)  # read back, it is a copy in a fifth of the time that deepcopy takes
    for fault in chosen:
        mutated: T = pickle.loads(written)
        old = next(node for position, node in enumerate(ast.walk(mutated)) if position == fault.index)
        _replace(mutated, old, pickle.loads(pickle.dumps(fault.new)))
        yield Mutant(fault.what, ast.fix_missing_locations(mutated))


def _spread(faults: list[_Fault], limit: int) -> list[_Fault]:
    step = max(1.0, len(faults) / limit) if limit else 1.0
    return [faults[int(turn * step)] for turn in range(min(limit, len(faults)))]


def _lines(node: ast.AST) -> range:
    first = getattr(node, "lineno", 0)
    return range(first, (getattr(node, "end_lineno", None) or first) + 1)


def _replace(tree: ast.AST, old: ast.AST, new: ast.AST) -> None:
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is old:
                setattr(parent, name, new)
                return
            if isinstance(value, list):
                for index, item in enumerate(value):
                    if item is old:
                        value[index] = new
                        return
