"""Sums of products of windows and a kernel: torch's own convolution, which never writes the windows down."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.ir import Loop
from gradwright.doctor.rewrite.loops.layout import permuted
from gradwright.doctor.rewrite.loops.value import Value, expanded
from gradwright.doctor.rewrite.loops.walks import Label, Walk, Window, walk_of

if TYPE_CHECKING:
    from gradwright.doctor.rewrite.loops.lowering import Lowering

_MODULE = "torch.nn.functional"
MOST_AXES = 3


@dataclass(frozen=True)
class _Axes:
    """What the axes are to the convolution. ``places``: a window for each axis that the kernel is moved along."""

    batch: tuple[Label, ...]
    channels: tuple[Label, ...]
    filters: tuple[Label, ...]
    places: tuple[Window, ...]

    @property
    def possible(self) -> bool:
        """Torch has at most one batch, one axis of channels and one of filters. In one line of numbers, with none of
        these, a product of the windows with the kernel is as good."""
        others = len(self.batch) + len(self.channels) + len(self.filters)
        few = max(len(self.batch), len(self.channels), len(self.filters)) <= 1
        return few and 1 <= len(self.places) <= MOST_AXES and bool(len(self.places) > 1 or others)


def convolved(low: Lowering, values: Sequence[Value], reduced: Sequence[Loop]) -> Value | None:
    """The product of two accesses summed over ``reduced`` and all axes of the cells, if that is a convolution.

    It is one where each axis in the windows meets an axis of the kernel that is as long, every other axis that is
    summed stands in both (the channels), and no other in both.
    """
    if len(values) != 2 or values[0].dtype != values[1].dtype:
        return None
    if any(value.number or not value.floating for value in values) or not _on_cpu(low):
        return None
    for x, kernel in (values, reversed(values)):
        walks = [walk_of(value, low.accesses.walks, low.spans.changing) for value in (x, kernel)]
        if walks[0] is None or walks[1] is None or not walks[0].windows or walks[1].windows:
            continue
        axes = _axes(walks[0], walks[1], reduced)
        if axes is None or not axes.possible:
            continue
        unsure = {one.outer for one in axes.places if not _is_as_long(low, one, kernel, walks[1])}
        if unsure and not (low.accesses.optimistic and all(_was_as_long(low, one, walks[1]) for one in axes.places)):
            continue
        if low.context.in_second_form("convolution"):
            return None
        node, loops = _written(low, axes, walks[0], walks[1])
        result = replace(low.combined(node, [x, kernel], x.dtype, cell=0), axes=loops)
        # A kernel of another length leaves another number of places than there are to be filled, which raises.
        doubtful = frozenset(loop for loop in loops if loop in unsure)
        return replace(result, sure=result.sure - doubtful, unsure=result.unsure | doubtful)
    return None


def _on_cpu(low: Lowering) -> bool:
    """Other devices convolve with fewer digits (TF32), or by transforms that spread infinity."""
    return all(one.tensor is None or one.tensor.device == "cpu" for one in low.seen.live_ins.values())


def _axes(x: Walk, kernel: Walk, reduced: Sequence[Loop]) -> _Axes | None:
    inside, outside = [one.inner for one in x.windows], [one.outer for one in x.windows]
    rest = [label for label in x.labels if label not in outside]
    summed = [label for label in (*rest, *kernel.labels) if not isinstance(label, Loop) or label in reduced]
    channels = tuple(label for label in rest if label in summed)
    batch = tuple(label for label in rest if label not in summed)
    filters = tuple(label for label in kernel.labels if label not in summed)
    places = sorted(x.windows, key=lambda one: x.labels.index(one.outer))
    alike = set(kernel.labels) == {*inside, *channels, *filters} and not {*inside} & {*x.labels}
    free = all(isinstance(label, Loop) and label not in reduced for label in outside)
    apart = not {*outside, *batch} & {*kernel.labels} and all(one in summed for one in inside)
    return _Axes(batch, channels, filters, tuple(places)) if alike and free and apart else None


def _is_as_long(low: Lowering, window: Window, kernel: Value, walk: Walk) -> bool:
    """Whether the text shows that the kernel is as long as the window."""
    axis = walk.whole.get(window.inner)
    if isinstance(window.inner, Loop):
        return axis is not None and window.inner in kernel.sure
    if axis is None or not walk.tensor:
        return False
    length = low.spans.sizes.term(window.length)
    return length is not None and length == low.spans.sizes.length(walk.tensor, axis)


def _was_as_long(low: Lowering, window: Window, walk: Walk) -> bool:
    """Whether it was so in the run."""
    live, axis = low.seen.live_ins.get(walk.tensor), walk.whole.get(window.inner)
    if live is None or live.tensor is None or axis is None:
        return False
    return live.tensor.shape[axis] == low.spans.sizes.seen_number(window.length)


def _written(low: Lowering, axes: _Axes, x: Walk, kernel: Walk) -> tuple[ast.expr, tuple[Loop, ...]]:
    """What computes it, and the loops that its axes run over.

    Torch convolves with no kernel that has no elements: then loops leave zeros, and a sum of slices is 0.
    """
    labels = [one for one in (*axes.batch, *axes.filters, *(one.outer for one in axes.places)) if isinstance(one, Loop)]
    loops = tuple(loop for loop in low.order if loop in labels)
    call = permuted(_call(low, axes, x, kernel), [*labels], low.order)
    has_elements = nodes.method(kernel.plain, "numel")
    in_loops = all(isinstance(label, Loop) for label in (*axes.channels, *(one.inner for one in axes.places)))
    lengths = [low.spans.length(loop) for loop in loops]
    if in_loops and None not in lengths:
        zeros = nodes.method(x.plain, "new_zeros", *(low.spans.written(one) for one in lengths if one is not None))
        return ast.IfExp(has_elements, call, zeros), loops
    return ast.IfExp(has_elements, call, _einsum(low, axes, x, kernel, loops)), loops


def _call(low: Lowering, axes: _Axes, x: Walk, kernel: Walk) -> ast.expr:
    rank = len(axes.places)
    outer, inner = [one.outer for one in axes.places], [one.inner for one in axes.places]
    image = _ordered(x.plain, x.labels, [*axes.batch, *axes.channels, *outer])
    image = expanded(image, [*([True] * len(axes.batch)), bool(axes.channels), *([True] * rank)])
    weights = _ordered(kernel.plain, kernel.labels, [*axes.filters, *axes.channels, *inner])
    weights = expanded(weights, [bool(axes.filters), bool(axes.channels), *([True] * rank)])
    steps = [one.step for one in axes.places]
    keywords: dict[str, ast.expr] = {}
    if not all(nodes.integer(step) == 1 for step in steps):
        alike = all(nodes.same(step, steps[0]) for step in steps)
        keywords["stride"] = steps[0] if alike else ast.Tuple(steps, ast.Load())
    node: ast.expr = nodes.call(nodes.attribute(_functional(low), f"conv{rank}d"), image, weights, **keywords)
    node = _first_ones(low, node, axes)
    return node if axes.filters else nodes.method(node, "squeeze", nodes.constant(len(axes.batch)))


def _einsum(low: Lowering, axes: _Axes, x: Walk, kernel: Walk, loops: Sequence[Loop]) -> ast.expr:
    letter: dict[Label, str] = {}
    for labels, letters in (
        (axes.batch, "n"),
        (axes.channels, "c"),
        (axes.filters, "f"),
        ([one.outer for one in axes.places], "dhw"[-len(axes.places) :]),
        ([one.inner for one in axes.places], "xyz"),
    ):
        letter |= dict(zip(labels, letters, strict=False))
    every = ([*x.labels, *(one.inner for one in x.windows)], kernel.labels, loops)
    image, weights, result = ("".join(letter[label] for label in labels) for labels in every)
    formula = ast.Constant(f"{image},{weights}->{result}")
    return nodes.call(nodes.attribute(low.torch, "einsum"), formula, x.unfolded, kernel.plain)


def _ordered(node: ast.expr, labels: Sequence[Label], wanted: Sequence[Label]) -> ast.expr:
    return permuted(node, [wanted.index(label) for label in labels], ())


def _first_ones(low: Lowering, node: ast.expr, axes: _Axes) -> ast.expr:
    """As many windows as are meant, where the tensor may have room for more."""
    parts: list[ast.expr] = [nodes.whole() for _ in range(len(axes.batch) + 1)]
    for axis, window in enumerate(axes.places, len(parts)):
        if window.first is None:
            parts.append(nodes.whole())
            continue
        count = low.spans.written(window.first)
        if isinstance(window.inner, Loop):
            parts.append(ast.Slice(None, count, None))
        else:  # a slice that leaves the tensor is shorter, no error: so many windows, or none
            node = nodes.method(node, "narrow", nodes.constant(axis), nodes.constant(0), count)
            parts.append(nodes.whole())
    return nodes.subscript(node, parts)


def _functional(low: Lowering) -> ast.expr:
    """The name under which the file has torch's functions, or ``torch.nn.functional``."""
    frame = low.context.frame
    for name, module in frame.imports.items():
        if module == _MODULE and frame.module_of(nodes.name(name)) == module:
            return nodes.name(name)
    return nodes.attribute(nodes.attribute(low.torch, "nn"), "functional")
