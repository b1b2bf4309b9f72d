"""What is known of the sizes of a kernel's arguments before it is called: from the text, and by what is asked."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from gradwright.doctor.rewrite.kernels.drifting import bound_names
from gradwright.doctor.rewrite.kernels.integers import Integers, Shape
from gradwright.doctor.rewrite.kernels.translation import Subject, Translated
from gradwright.doctor.rewrite.kernels.values import Row
from gradwright.doctor.rewrite.loops.terms import Term

_NEW_SHAPES = frozenset(
    {"resize_", "resize_as_", "set_", "t_", "transpose_", "swapaxes_", "swapdims_", "squeeze_", "unsqueeze_"}
    | {"as_strided_", "data"}
)


@dataclass
class ToldSizes:
    """``known``: shapes and integers by the kernel's name. ``facts``: sums that are not below zero. ``seen``: what may
    be asked for before the call, as it was in the run."""

    known: dict[str, Term | Shape] = field(default_factory=dict)
    facts: list[Term] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict)

    def same(self, one: Term, other: Term) -> None:
        self.facts += [one.plus(other, -1), other.plus(one, -1)]


def told_sizes(subject: Subject, found: Translated) -> ToldSizes:
    told = ToldSizes()
    for one in found.arguments.given.values():
        if isinstance(one.value, Row):
            shape = tuple(_named(extent.code) for extent in one.value.extents)
            told.known[one.parameter] = shape
            told.facts += shape
            told.seen |= {extent.code: extent.size or 0 for extent in one.value.extents}
        elif one.in_place:
            told.known[one.parameter] = ()
        elif one.tensor is None and one.value.type == "int":
            told.known[one.parameter] = _named(one.parameter)
            if isinstance(one.number, int):
                told.seen[one.parameter] = one.number
    asked = Integers(told.known, [])
    for condition in found.writer.sizes.conditions:
        told.facts += asked.told(ast.parse(condition, mode="eval").body)
    if _stays_so(subject):
        _read_from_text(subject, found, told)
    return told


def _named(what: str) -> Term:
    return Term(((what, 1),))


def _stays_so(subject: Subject) -> bool:
    """Whether what the text says of a name that is bound once holds where the loop begins: the name is not bound again
    and again by a loop around, and no tensor gets another shape."""
    for node in ast.walk(subject.function):
        if isinstance(node, ast.For | ast.While) and node is not subject.loop and subject.loop in ast.walk(node):
            return False
        if isinstance(node, ast.Attribute) and node.attr in _NEW_SHAPES:
            return False
        if isinstance(node, ast.keyword) and node.arg == "out":
            return False
    return True


def _read_from_text(subject: Subject, found: Translated, told: ToldSizes) -> None:
    buffers = subject.buffers
    loops = [node for node in ast.walk(subject.function) if isinstance(node, ast.For | ast.While)]
    bound = bound_names([*loops, *subject.statements])  # not what it was, or not always
    given = {one.text: one for one in found.arguments.given.values()}
    ranks = {text: len(one.value.extents) for text, one in given.items() if isinstance(one.value, Row)}

    def size(axis: tuple[str, int]) -> Term | None:
        tensor, at = axis
        if tensor in bound or tensor not in buffers.once or (at < 0 and tensor not in ranks):
            return None
        return _named(f"{tensor}.shape[{at + ranks[tensor] if at < 0 else at}]")

    numbers = {
        text
        for text in (buffers.numbers | {text for text, one in given.items() if one.tensor is None})
        if text in buffers.once and text not in bound
    }
    integers = Integers({text: _named(text) for text in numbers}, [])
    pairs = [(size(one), size(other)) for one, other in buffers.equal_axes(ranks)]
    pairs += [(size(one), integers.of(made)) for one, made in buffers.made]
    pairs += [(_named(text), size(axis)) for text, axis in buffers.names_of_sizes.items() if text in numbers]
    lengths = [size(axis) for pair in buffers.equal_axes(ranks) for axis in pair]
    lengths += [size(axis) for axis in buffers.names_of_sizes.values()]
    told.facts += [one for one in lengths if one is not None]
    for one, other in pairs:
        if one is not None and other is not None:
            told.same(one, other)
    told.facts += integers.facts
