"""What the expressions of a loop were, the times they were evaluated: plain descriptions, by their place in the text.

Standard library only. Made by ``probe.seeing`` where the loop runs; read by the rewrites, which never see a tensor.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

# First line, first column, last line, last column, as ``ast`` counts them (columns in UTF-8 bytes, from 0).
Key = tuple[int, int, int, int]


def key_of(node: ast.AST) -> Key:
    """The place of an expression, by which what was seen of it is found."""
    return node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0  # type: ignore[attr-defined]  # expressions and statements have them


@dataclass(frozen=True, slots=True)
class SeenTensor:
    """``dtype`` is written ``float32``, ``device`` ``cpu``. Tensors with the same ``memory`` share a storage."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str
    device: str = "cpu"
    requires_grad: bool = False
    is_leaf: bool = False
    memory: int = 0

    @property
    def floating(self) -> bool:
        return self.dtype.startswith(("float", "bfloat"))


@dataclass(frozen=True, slots=True)
class SeenValue:
    """``type`` is the class's name (``Tensor``, ``int``, ``list``, ``Linear``, ``function`` ...).

    ``number``: of an int, float or bool. ``items``: the first few of a list, tuple or dict (its values); ``length`` of
    them. ``dotted``: the full name of a module, class or function (``torch.exp``, ``math.sqrt``).
    """

    type: str
    tensor: SeenTensor | None = None
    number: int | float | None = None
    length: int | None = None
    items: tuple[SeenValue, ...] = ()
    dotted: str = ""


@dataclass(frozen=True)
class Seen:
    """One run of a region. ``values``: per expression what it was, each distinct description once, first ones first.

    What was never evaluated (a branch not taken) is not there. ``live_ins``: by name, at the region's entry.
    ``records_graph``: whether grad mode was on and something required a gradient (not so inside a Function).
    """

    values: Mapping[Key, tuple[SeenValue, ...]] = field(default_factory=dict)
    live_ins: Mapping[str, SeenValue] = field(default_factory=dict)
    records_graph: bool = False

    def of(self, node: ast.AST) -> SeenValue | None:
        """What the expression was if it was always the same but for numbers; None if unseen, or seen to vary.

        A number that varied (a loop variable) comes without its value.
        """
        found = self.values.get(key_of(node), ())
        if not found:
            return None
        first = found[0]
        if all(other == first for other in found):
            return first
        plain = SeenValue(first.type, first.tensor, None, first.length, first.items, first.dotted)
        same = all(SeenValue(o.type, o.tensor, None, o.length, o.items, o.dotted) == plain for o in found)
        return plain if same else None
