"""Sessions with every part in them, and what a disk, a program or a person may do to one."""

from __future__ import annotations

import dataclasses
import json
import random
import types
import typing
from pathlib import Path
from typing import Any

from gradwright.doctor.session.codec import FACT_KINDS, encode
from gradwright.doctor.session.facts import Fact
from gradwright.doctor.session.model import Report

REAL = Path(__file__).parent / "kept" / "element_loop.json"  # of examples/element_loop, as it was written once

# What stands in for any value: the odd ones of each type, and text that somebody may take for more than text.
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 3, 10**18, -(10**18), 2**31 - 1, 2**63 - 1, -(2**63), 10**400, 0.5, 1e308,
    -1e308, 5e-324, "nan", "inf", "-inf", "", "x", "a\nb", "\x1b[31mred", "\u202eright to left", "\ud800", "\x00",
    "é" * 300, "<script>alert(1)</script>", "::error::x", "%0A%25", "[bold]x[/bold]", "{{ 7 * 7 }}", "../../etc/passwd",
    "/abs/path", "file:///x", "C:\\x", "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n", "@@ -999999999,5 +1 @@", "--- ",
    "train.py", [], {}, [[]], [1, 2], ["a"], {"a": 1}, [None], "error", "info", "wrong", "right", "proved", "forward",
)  # fmt: skip


def with_every_part(report: Report) -> Report:
    """With a fact of every kind, each field of which holds something."""
    facts = [dataclasses.replace(_example(kind), id=f"fact {name}") for name, kind in FACT_KINDS.items()]
    subject = report.subjects[0].id
    facts = [dataclasses.replace(fact, subject=subject) for fact in facts]
    return dataclasses.replace(report, facts=(*report.facts, *facts))


def _example(kind: Any) -> Any:
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _example(typing.get_args(kind)[0])
    if origin is tuple:
        items = typing.get_args(kind)
        return (_example(items[0]),) * 2 if items[-1] is Ellipsis else tuple(_example(item) for item in items)
    if origin is typing.Literal:
        return typing.get_args(kind)[0]
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return kind(**{field.name: _example(hints[field.name]) for field in dataclasses.fields(kind)})
    return {str: "MySquare", int: 3, float: 0.5, bool: True}[kind]


def documents(report: Report) -> list[str]:
    """The sessions that are spoilt: one that a run wrote, and one with everything in it."""
    full = with_every_part(report)
    assert {type(fact) for fact in full.facts} == {kind for kind in FACT_KINDS.values() if kind is not Fact}
    return [REAL.read_text(), json.dumps(encode(full))]


class Spoiler:
    """Draws from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def cut(self, data: bytes) -> bytes:
        return data[: self._random.randrange(len(data))]

    def flipped(self, data: bytes) -> bytes:
        """A few bytes are others."""
        spoilt = bytearray(data)
        for _ in range(self._random.choice((1, 1, 3, 20))):
            spoilt[self._random.randrange(len(spoilt))] = self._random.randrange(256)
        return bytes(spoilt)

    def replaced(self, data: bytes) -> bytes:
        """Still JSON: a few values are others, of the same type if that can be, or what stands elsewhere in it."""
        document = json.loads(data)
        places = list(_places(document))
        for _ in range(self._random.choice((1, 1, 1, 2, 5))):
            holder, key = self._random.choice(places)
            like = [value for value in VALUES if _alike(value, holder[key])]
            chance = self._random.random()
            if chance < 0.6 and like:
                value = self._random.choice(like)
            elif chance < 0.8:
                value = self._random.choice(VALUES)
            else:
                other, at = self._random.choice(places)
                value = json.loads(json.dumps(other[at]))
            holder[key] = value
        return json.dumps(document).encode()


def _places(value: Any) -> typing.Iterator[tuple[Any, Any]]:
    if isinstance(value, (dict, list)):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return isinstance(one, bool) and isinstance(other, bool)
    return type(one) is type(other) or (isinstance(one, (int, float)) and isinstance(other, (int, float)))
