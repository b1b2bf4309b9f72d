"""A function's text, measured on inputs, rewritten, and run again: what the doctor does, without a script around it."""

import ast
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from gradwright.doctor.probe.measures import MEASURES
from gradwright.doctor.probe.operations import watch_body
from gradwright.doctor.rewrite import propose
from gradwright.doctor.rules import all_rules
from gradwright.doctor.session.facts import CostlyExpression
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.expressions import function_at, suspects
from gradwright.doctor.source.files import Columns
from gradwright.doctor.source.statements import Origins

REWRITES = {loaded.rule.name: loaded.rule.rewrite for loaded in all_rules()}

RULES = {
    "product summed": "product-materialised-then-summed",
    "recomputed": "subexpression-recomputed",
    "temporaries": "temporaries-unfused",
    "copy": "needless-copy",
    "masked write": "mask-multiplied",
    "promoted": "dtype-promoted",
    "mask product": "mask-multiplied",
}


@dataclass(frozen=True)
class Rewritten:
    """``lines``: those that are new, without their indent; both functions, callable."""

    lines: list[str]
    before: Callable[..., Any]
    after: Callable[..., Any]
    what: str = ""

    def agrees(self, *inputs: Any) -> bool:
        """Whether both give the same on copies of the inputs, by the rounding of float32, and leave them the same."""
        mine, theirs = ([copy(value) for value in inputs] for _ in range(2))
        one, other = self.before(*mine), self.after(*theirs)
        pairs = [*zip(flat(one), flat(other), strict=True), *zip(mine, theirs, strict=True)]
        return all(same(a, b) for a, b in pairs)


def copy(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def flat(value: Any) -> tuple:
    return value if isinstance(value, tuple) else (value,)


def same(one: Any, other: Any) -> bool:
    if not isinstance(one, torch.Tensor):
        return one == other
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.allclose(one.double(), other.double(), rtol=3e-5, atol=1e-6, equal_nan=True)


def function_of(text: str, path: Path, name: str) -> types.FunctionType:
    """The function or method of that name, out of a module of this text."""
    path.write_text(text)
    room: dict[str, Any] = {"__name__": path.stem}
    exec(compile(text, str(path), "exec"), room)
    for value in room.values():
        method = getattr(value, name, None) if isinstance(value, type) else None
        if isinstance(method, types.FunctionType):
            return method
    return room[name]


@pytest.fixture
def rewritten(tmp_path: Path) -> Callable[..., Rewritten | None]:
    """``rewritten(pattern, text, *inputs, name="f")``; None where nothing is measured or proposed."""

    def rewrite(pattern: str, text: str, *inputs: Any, name: str = "f") -> Rewritten | None:
        before = function_of(text, tmp_path / "before.py", name)
        tree = ast.parse(text)
        node = function_at(tree, name, before.__code__.co_firstlineno)
        assert node is not None
        with torch.no_grad():
            body = watch_body(before.__code__, lambda: before(*map(copy, inputs)))
        for suspect in suspects(node, Origins(tree)):
            measured = MEASURES[suspect.pattern](suspect, body) if suspect.pattern == pattern else None
            if measured is None:
                continue
            span = Columns(text.replace("\r\n", "\n")).span(suspect.node)
            at = Location("before.py", span.line, span.column, span.end_line, span.end_column)
            fact = CostlyExpression(
                id="c", subject="s", phase="forward", pattern=suspect.pattern, location=at, text="", tried_on="",
                bytes=measured.bytes, minimum_bytes=measured.minimum_bytes, extra_bytes=measured.extra_bytes,
                share_of_phase=1.0, share_of_step=1.0, shapes=measured.shapes, wide_part=measured.wide_part,
            )  # fmt: skip
            finding = Finding("GW3", RULES[pattern], "speed", "warning", "f", at, "", "", evidence=("c",))
            for proposal in propose(REWRITES[RULES[pattern]], finding, (fact,), text):
                lines = [one[1:].strip() for one in proposal.diff.splitlines() if one[:1] == "+" and one[:3] != "+++"]
                after = function_of(proposal.new_text, tmp_path / "after.py", name)
                return Rewritten(lines, before, after, proposal.what)
        return None

    return rewrite
