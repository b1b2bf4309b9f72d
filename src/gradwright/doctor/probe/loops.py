"""A loop of a plain function, a method or the script's body, replayed on what it was entered with."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from torch.utils.data import DataLoader

from gradwright.doctor.probe.attempts import Limits, attempt
from gradwright.doctor.probe.costs import Measured, loop_facts, operations_fact
from gradwright.doctor.probe.shrink import describe, fresh
from gradwright.doctor.probe.spending import or_told, spent_in_calls
from gradwright.doctor.probe.tracing import trace
from gradwright.doctor.session.facts import Fact
from gradwright.doctor.session.model import NotExamined
from gradwright.doctor.source.entered import LoopUse
from gradwright.doctor.source.places import text_of_file
from gradwright.doctor.source.walking import SITES

# Below this share of the watched time a loop is nobody's problem, and is not replayed.
WORTH_REPLAYING = 0.02


def probe_loop(use: LoopUse, share: Callable[[float], float], limits: Limits) -> Iterator[Fact | NotExamined]:
    """Operations per line and the loop's shape, from a replay in a forked child."""
    if not use.entries or share(use.seconds) < WORTH_REPLAYING or trains(use):
        return
    if use.live is not None:
        return  # it was tried on its live graph
    name = f"the loop at {use.subject.location}"
    if not use.site.replayable:
        yield NotExamined(name, use.site.not_replayable_because)
        return
    if not use.live_ins:
        yield NotExamined(name, "nothing was kept of what it was entered with")
        return
    done = attempt(lambda: _replay(use, share), limits)
    if done.how == "returned":
        yield from done.value or ()
    else:
        yield NotExamined(name, f"its replay failed: {done.why}")


def trains(use: LoopUse) -> bool:
    """Whether gradients were taken inside, or batches are drawn from a loader: no loop over elements."""
    if use.gradients and not use.site.gradient_loop:
        return True
    loop = next((node for node in ast.walk(ast.parse(use.site.source)) if isinstance(node, (ast.For, ast.While))), None)
    return isinstance(loop, ast.For) and any(isinstance(thing, DataLoader) for thing in _named_in(loop.iter, use))


def _named_in(expression: ast.expr, use: LoopUse) -> Iterator[Any]:
    """What the names and attributes of an expression stood for when the loop was first entered."""
    names = {**use.globals, **(use.live_ins[0] if use.live_ins else {})}
    for node in ast.walk(expression):
        path: list[str] = []
        while isinstance(node, ast.Attribute):
            path.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name) and node.id in names:
            thing = names[node.id]
            for attribute in reversed(path):
                thing = inspect.getattr_static(thing, attribute, None)
            yield thing


def _replay(use: LoopUse, share: Callable[[float], float]) -> list[Fact | NotExamined]:
    program = compiled_loop(use)
    names = _names(use)
    found = trace(lambda: exec(program, names), seconds=3.0)  # the user's own loop, as it stands in the user's file
    measured = Measured(
        subject=use.subject.id,
        phase="loop",
        seconds=use.seconds / max(1, use.entries),
        share=share(use.seconds),
        tried_on=describe(tuple(use.live_ins[0].values())),
        minimum_bytes=0,
    )

    def entered() -> Callable[[], None]:
        mine = _names(use)
        return lambda: exec(program, mine)

    name = f"the loop at {use.subject.location}"
    (taken,), told = or_told(lambda: [spent_in_calls(entered, found, measured.seconds)], name, phases=1)
    return [operations_fact(found, measured, taken), *loop_facts(found, measured, use.subject.location), *told]


def _names(use: LoopUse) -> dict[str, Any]:
    return {**use.globals, **dict(zip(use.live_ins[0], fresh(tuple(use.live_ins[0].values())), strict=True))}


def compiled_loop(use: LoopUse) -> Any:
    """The loop alone, as code whose lines and columns are those of the file; of a ``return``, what it returns."""
    lines = text_of_file(use.path).split("\n")
    at = use.subject.location
    place = (at.line, len(lines[at.line - 1][: at.column - 1].encode()))
    node = next(
        node
        for node in ast.walk(ast.parse("\n".join(lines)))
        if isinstance(node, SITES) and (node.lineno, node.col_offset) == place
    )
    alone: ast.stmt = node
    if isinstance(node, ast.Return):
        assert node.value is not None  # a comprehension stands in it
        alone = ast.copy_location(ast.Expr(node.value), node)
    return compile(ast.Module(body=[alone], type_ignores=[]), use.path, "exec")
