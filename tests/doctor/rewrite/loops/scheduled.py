"""A function's loop, read and scheduled as the doctor does it, and the schedule run against the original."""

from __future__ import annotations

import ast
import random
import textwrap
from collections.abc import Callable
from typing import Any

import torch
from tests.doctor.rewrite.loops.executing import execute

from gradwright.doctor.probe.seeing import see
from gradwright.doctor.rewrite.loops.ir import Nest, Schedule, Sequential, Step, Vector
from gradwright.doctor.rewrite.loops.reading import read_nest
from gradwright.doctor.rewrite.loops.region import Region, region_of
from gradwright.doctor.rewrite.loops.schedule import schedule
from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.doctor.source.files import parse
from gradwright.doctor.source.loops import LoopSite, find_loops
from gradwright.doctor.source.seen import Seen

Inputs = Callable[[], dict[str, Any]]


def named(**names: Any) -> Inputs:
    """Fresh inputs: tensors are copied, so that views of one tensor need a factory of their own."""
    return lambda: {
        name: value.clone() if isinstance(value, torch.Tensor) else list(value) if isinstance(value, list) else value
        for name, value in names.items()
    }


def region(text: str) -> tuple[LoopSite, Region]:
    source = textwrap.dedent(text)
    site = find_loops(parse(source.encode(), "/tmp/program.py"))[0]
    return site, region_of(source, site)


def entered(found: Region, inputs: Inputs) -> dict[str, Any]:
    """The names of the function where its loop begins."""
    names: dict[str, Any] = {"torch": torch, **inputs()}
    exec(compile(ast.Module([*found.before], []), "program", "exec"), names)
    return {name: value for name, value in names.items() if not name.startswith("__")}


def seen_in(found: Region, inputs: Inputs) -> Seen:
    names = entered(found, inputs)
    del names["torch"]
    return see([found.node, *found.tail], "/tmp/program.py", names, {"torch": torch})


def read(text: str, inputs: Inputs) -> tuple[Nest, Seen, Region]:
    """Raises: DeclinedError."""
    site, found = region(text)
    seen = seen_in(found, inputs)
    nest = read_nest(found.node, seen, live_outs=site.read_after, tail=found.tail, before=found.before)
    return nest, seen, found


def scheduled(text: str, **names: Any) -> Schedule:
    nest, seen, found = read(text, named(**names))
    return schedule(nest, seen, function=found.function, before=found.before)


def shown(steps: tuple[Step, ...]) -> list[str]:
    """``map i j: y`` for a statement taken at once, ``for i`` and what is inside for a loop that stays."""
    lines = []
    for step in steps:
        if isinstance(step, Sequential):
            lines += [f"for {step.loop.variable}", *(f"  {line}" for line in shown(step.body))]
        else:
            lines.append(_line(step))
    return lines


def _line(step: Vector) -> str:
    axes = " ".join(loop.variable for loop in step.axes)
    along = f" along {' '.join(loop.variable for loop in step.reduced)}" if step.reduced else ""
    return f"{step.role} {axes}{along}: {ast.unparse(step.statement.target.node)}"


def outcome(text: str, inputs: Inputs, seed: int = 0, trials: int = 2) -> str:
    """``right``, ``wrong``, ``declined``, or ``invalid`` where the program itself raises."""
    names: dict[str, Any] = {"torch": torch}
    exec(text, names)
    try:
        want = names["program"](**inputs())
    except (IndexError, RuntimeError):
        return "invalid"
    if not find_loops(parse(text.encode(), "/tmp/program.py")):
        return "invalid"
    try:
        nest, seen, found = read(text, inputs)
        if found.function is None or found.node not in found.function.body:
            return "invalid"  # only a loop inside another one is a site
        steps = schedule(nest, seen, function=found.function, before=found.before)
    except DeclinedError:
        return "declined"
    for trial in range(trials):
        try:
            got = after(nest, steps, found, inputs, random.Random(seed * 10 + trial))
        except (NameError, KeyError):
            return "wrong"  # a value is read before it is there
        if not _alike(got, want):
            return "wrong"
    return "right"


def after(nest: Nest, steps: Schedule, found: Region, inputs: Inputs, rng: random.Random) -> Any:
    """What the function returns if its loop runs by its schedule."""
    names = entered(found, inputs)
    execute(nest, steps, names, rng)
    assert found.function is not None
    rest = found.function.body[found.function.body.index(found.node) + 1 :]
    if found.tail:
        rest = [*nest.tail, *rest[len(found.tail) :]]
    elif not isinstance(found.node, (ast.For, ast.While)):
        rest = [*nest.tail, *rest]
    known = {name: value for name, value in names.items() if not name.startswith("__")}
    wrapped = ast.parse(f"def rest({', '.join(known)}): pass").body[0]
    assert isinstance(wrapped, ast.FunctionDef)
    wrapped.body = rest
    exec(compile(ast.fix_missing_locations(ast.Module([wrapped], [])), "program", "exec"), names)
    return names["rest"](**known)


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(_alike(a, b) for a, b in zip(one, other, strict=True))
    first, second = (torch.as_tensor(value, dtype=torch.float64) for value in (one, other))
    return first.shape == second.shape and torch.equal(first, second)
