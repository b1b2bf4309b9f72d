"""How an access walks over a tensor, axis by axis: what a product of two of them is can be told from that."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.dimensions import Dimension
from gradwright.doctor.rewrite.loops.ir import Loop
from gradwright.doctor.rewrite.loops.terms import Term
from gradwright.doctor.rewrite.loops.value import Value
from gradwright.ground.syntax import dotted

Label = Loop | int


@dataclass(frozen=True, eq=False)
class Window:
    """Along the axis of ``outer`` windows as long as ``length`` begin at every ``step``-th element; ``inner`` runs
    inside of them. ``first``: how many of them are meant, where the tensor may have room for more."""

    outer: Label
    inner: Label
    length: ast.expr
    step: ast.expr
    first: Term | None = None


@dataclass(frozen=True, eq=False)
class Walk:
    """``node`` is ``unfolded`` with its axes put in order, that is ``plain`` with windows taken of it: their axes come
    last.

    ``labels``: of the axes of ``plain``, loops or axes of the cell; ``whole``: those that are axes of ``tensor`` as
    they stand, and which.
    """

    node: ast.expr
    unfolded: ast.expr
    plain: ast.expr
    labels: tuple[Label, ...]
    windows: tuple[Window, ...] = ()
    tensor: str = ""
    whole: Mapping[Label, int] = field(default_factory=dict)


def walk_of(value: Value, walks: Sequence[Walk], changing: frozenset[str]) -> Walk | None:
    """The walk of a value that is nothing but an access; the axes of its cell are 0, 1, ... here.

    ``changing``: names that mean something else every time.
    """
    found = next((one for one in reversed(walks) if one.node is value.node), None)
    if found is None:
        node, name = value.node, dotted(value.node)
        axes: dict[Label, int] = {axis: axis for axis in range(value.cell)}
        stays = name and not value.axes and nodes.root_name(node) not in changing
        return Walk(node, node, node, tuple(axes), (), name, axes) if stays else None
    every = (*found.labels, *(window.inner for window in found.windows))
    loops = {one for one in every if isinstance(one, Loop)}
    cell = sorted(one for one in every if not isinstance(one, Loop))
    if loops != set(value.axes) or len(cell) != value.cell or len({*every}) < len(every):
        return None

    def renamed(label: Label) -> Label:
        return label if isinstance(label, Loop) else cell.index(label)

    windows = [Window(renamed(one.outer), renamed(one.inner), one.length, one.step, one.first) for one in found.windows]
    whole: dict[Label, int] = {renamed(label): axis for label, axis in found.whole.items()}
    labels = tuple(renamed(label) for label in found.labels)
    return replace(found, labels=labels, windows=tuple(windows), whole=whole)


def walked(
    node: ast.expr,
    unfolded: ast.expr,
    base: Value,
    dims: Sequence[Dimension],
    rest: Sequence[int],
    changing: frozenset[str],
) -> Walk | None:
    """The walk of ``node``, which ``base`` at its indices has become; None where it goes backwards or around."""
    if any(dim.flip or dim.roll or dim.block or (dim.window and dim.window[3]) for dim in dims):
        return None
    labels: list[Label] = [*base.axes]
    parts: list[ast.expr] = [nodes.whole() for _ in base.axes]
    whole: dict[Label, int] = {loop: axis for axis, loop in enumerate(base.axes)}
    windows = []
    axis = len(base.axes)
    for dim in dims:
        if dim.window is None and len(dim.labels) == 1 and nodes.is_whole(dim.part):
            whole[dim.labels[0]] = axis
        if dim.window is not None:
            length, step, inner, _ = dim.window
            windows.append(Window(dim.labels[0], inner, length, step, dim.cut))
        labels += dim.labels
        parts.append(dim.part)
        axis += not nodes.is_none(dim.part)
    whole |= {label: axis + index for index, label in enumerate(rest)}
    tensor = dotted(base.node) if nodes.root_name(base.node) not in changing else ""
    return Walk(node, unfolded, nodes.subscript(base.node, parts), (*labels, *rest), tuple(windows), tensor, whole)
