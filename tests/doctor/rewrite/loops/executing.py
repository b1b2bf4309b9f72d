"""Runs a schedule as it stands, statement by statement, every axis in a random order: what it means, in plain Python.

Values of a statement are computed for all its iterations before the first is written (NOTE [reads first]).
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from gradwright.doctor.rewrite.loops.ir import Loop, Nest, Place, Schedule, Statement, Step, Vector

Round = Mapping[Loop, int]


def execute(nest: Nest, schedule: Schedule, names: dict[str, Any], rng: random.Random) -> None:
    """Runs the steps on ``names``, which they change."""
    _Execution(nest, names, rng).steps(schedule.steps, {})


class _Execution:
    def __init__(self, nest: Nest, names: dict[str, Any], rng: random.Random) -> None:
        self.names, self.rng = names, rng
        self.homes = {name: _home(name, nest) for name in nest.temporaries}
        self.temporaries: dict[tuple[str, tuple[int, ...]], Any] = {}
        # What a running value was before and after every round, by the statement that makes it.
        self.history: dict[Statement, dict[tuple[int, ...], tuple[Any, Any]]] = {}
        self.codes: dict[str, Any] = {}
        self.filled: dict[Statement, int] = {}  # how many places were written that the loop counts as it fills them

    def steps(self, steps: Sequence[Step], around: Round) -> None:
        for step in steps:
            if isinstance(step, Vector):
                self.vector(step, around)
                continue
            for value in self.range_of(step.loop, around):
                self.steps(step.body, {**around, step.loop: value})

    def range_of(self, loop: Loop, around: Round) -> Iterator[int]:
        start, stop = (int(self.value(end, None, around)) for end in (loop.start, loop.stop))
        return iter(range(start, stop, loop.step))

    def rounds(self, axes: Sequence[Loop], around: Round) -> Iterator[Round]:
        if not axes:
            yield around
            return
        for value in self.range_of(axes[0], around):
            yield from self.rounds(axes[1:], {**around, axes[0]: value})

    # --- statements ---------------------------------------------------------------------------------------------------

    def vector(self, step: Vector, around: Round) -> None:
        statement = step.statement
        rounds = list(self.rounds(step.axes, around))
        if step.role in ("running", "extremum"):
            self.shuffled_outside(rounds, step)
        elif step.role != "append":
            self.rng.shuffle(rounds)
        holds = [all(self.value(guard, statement, one) for guard in statement.guards) for one in rounds]
        values = [
            _own(self.value(statement.value, statement, one)) if held else None
            for one, held in zip(rounds, holds, strict=True)
        ]
        also = [
            [_own(self.value(value, statement, one)) if held else None for _, value in statement.also]
            for one, held in zip(rounds, holds, strict=True)
        ]
        places = [
            self.spot(statement.target, statement, one) if held else None
            for one, held in zip(rounds, holds, strict=True)
        ]
        for position, one in enumerate(rounds):
            if step.role == "running" and statement.kind == "assign":
                prior = {**one, step.reduced[0]: one[step.reduced[0]] - step.reduced[0].step}
                old = self.read(self.spot(statement.target, statement, prior))
                self.write(places[position], _combined(statement.operator, old, values[position]))
                continue
            spot = self.spot(statement.target, statement, one)
            before = _own(self.read(spot)) if step.role == "running" else None
            if holds[position]:
                self.one(statement, places[position], values[position], also[position], one)
            if step.role == "running":
                after = _own(self.read(spot))
                self.history.setdefault(statement, {})[self.key(statement, one)] = (before, after)

    def shuffled_outside(self, rounds: list[Round], step: Vector) -> None:
        """Another order of the rounds, but for the loops along which a value runs."""
        free = [loop for loop in step.axes if loop not in step.reduced]
        order = {key: self.rng.random() for key in {tuple(one[loop] for loop in free) for one in rounds}}
        rounds.sort(key=lambda one: order[tuple(one[loop] for loop in free)])

    def one(self, statement: Statement, spot: Any, value: Any, also: list[Any], around: Round) -> None:
        if statement.kind == "append" and statement.target.indices:
            first, *rest = spot[1] if isinstance(spot[1], tuple) else (spot[1],)
            spot[0][(first + self.filled.get(statement, 0), *rest)] = value
            self.filled[statement] = self.filled.get(statement, 0) + 1
        elif statement.kind == "append" and isinstance(held := self.read(spot), torch.Tensor):
            self.write(spot, torch.cat([held, value if value.dim() == held.dim() else value.unsqueeze(0)]))
        elif statement.kind == "append":
            held.append(value)
        elif statement.kind == "assign":
            self.write(spot, value)
        elif statement.kind == "accumulate":
            new = _combined(statement.operator, self.read(spot), value)
            held = self.read(spot)
            if isinstance(statement.node, ast.AugAssign) and isinstance(held, torch.Tensor):
                held.copy_(new)
            else:
                self.write(spot, new)
        elif _better(statement.operator, value, self.read(spot)):
            self.write(spot, value)
            for (place, _), other in zip(statement.also, also, strict=True):
                self.write(self.spot(place, statement, around), other)

    # --- values -------------------------------------------------------------------------------------------------------

    def key(self, statement: Statement, around: Round) -> tuple[int, ...]:
        return tuple(around[loop] for loop in statement.loops)

    def value(self, node: ast.expr, statement: Statement | None, around: Round) -> Any:
        text = ast.unparse(node)
        local: dict[str, Any] = {loop.variable: value for loop, value in around.items()}
        for (name, key), held in self.temporaries.items():
            home = self.homes[name]
            if all(loop in around for loop in home) and key == tuple(around[loop] for loop in home):
                local[name] = held
        for number, (running, values) in enumerate(self.history.items()):
            if statement is None or statement is running or not all(loop in around for loop in running.loops):
                continue
            spot = ast.unparse(running.target.node)
            if spot not in text:
                continue
            before, after = values[self.key(running, around)]
            local[f"running_{number}"] = after if statement.number > running.number else before
            text = ast.unparse(_Exchanged(spot, f"running_{number}").visit(ast.parse(text, mode="eval")))
        if text not in self.codes:
            self.codes[text] = compile(text, "<expression>", "eval")
        return eval(self.codes[text], {**self.names, **local})

    def spot(self, place: Place, statement: Statement, around: Round) -> Any:
        """What to write: a name, or a container with an index."""
        if not place.indices:
            home = self.homes.get(place.base)
            return (place.base, None if home is None else tuple(around[loop] for loop in home))
        index = tuple(self.value(one, statement, around) for one in place.indices)
        container = self.value(ast.Name(place.base, ast.Load()), None, around)
        return container, index[0] if len(index) == 1 else index, None

    def read(self, spot: Any) -> Any:
        if len(spot) == 3:
            return spot[0][spot[1]]
        name, key = spot
        return self.names[name] if key is None else self.temporaries[name, key]

    def write(self, spot: Any, value: Any) -> None:
        if len(spot) == 3:
            spot[0][spot[1]] = value
        elif spot[1] is None:
            self.names[spot[0]] = value
        else:
            self.temporaries[spot] = value


class _Exchanged(ast.NodeTransformer):
    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, (ast.Name, ast.Subscript)) and ast.unparse(node) == self.old:
            return ast.Name(self.new, ast.Load())
        return super().visit(node)


def _home(name: str, nest: Nest) -> tuple[Loop, ...]:
    chains = [
        one.loops
        for one in nest.statements
        if one.kind == "assign" and one.target.base == name and not one.target.indices
    ]
    shared = []
    for level in zip(*chains, strict=False):
        if len(set(map(id, level))) > 1:
            break
        shared.append(level[0])
    return tuple(shared)


def _own(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _combined(operator: str, old: Any, value: Any) -> Any:
    match operator:
        case "+":
            return old + value
        case "-":
            return old - value
        case "*":
            return old * value
        case "/":
            return old / value
        case "max":
            return max(old, value)
        case "min":
            return min(old, value)
        case "and":
            return old and value
        case "or":
            return old or value
    raise AssertionError(operator)


def _better(operator: str, value: Any, old: Any) -> bool:
    return bool({"<": value < old, "<=": value <= old, ">": value > old, ">=": value >= old}[operator])
