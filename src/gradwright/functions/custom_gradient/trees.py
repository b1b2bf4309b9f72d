"""Trees of tensors: taken apart into tensors side by side and the layout that puts others in their places.

Lists, tuples, named tuples, dicts, and whatever was registered with ``torch.utils._pytree``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

from gradwright.functions.custom_gradient.messages import complaint
from gradwright.ground.torch_versions.trees import (
    SUPPORTED_NODES,
    TreeSpec,
    tree_flatten,
    tree_structure,
    tree_unflatten,
)


class _Hole:
    """Stands where a tensor was."""

    def __repr__(self) -> str:
        return "HOLE"


HOLE = _Hole()


@dataclass(frozen=True, slots=True)
class Layout:
    """A tree without its tensors: ``leaves`` has ``HOLE`` where each of the ``count`` tensors was. ``is_row``: it is a
    plain tuple of tensors."""

    spec: TreeSpec
    leaves: tuple[Any, ...]
    count: int
    is_row: bool = False

    def fill(self, tensors: Iterable[Any]) -> Any:
        """The tree with ``tensors`` (or whatever takes their places) in order."""
        left = iter(tensors)
        if self is TENSOR:
            return next(left)
        if self.is_row:
            return tuple(left)[: self.count]
        return tree_unflatten([next(left) if leaf is HOLE else leaf for leaf in self.leaves], self.spec)

    def emptied(self) -> Layout:
        """The same without the values that are no tensors."""
        if self.count == len(self.leaves):
            return self
        return Layout(self.spec, tuple(HOLE if leaf is HOLE else None for leaf in self.leaves), self.count)

    def take(self, tree: Any) -> list[Any] | None:
        """What stands in another tree where the tensors were; ``None``, where it has another structure."""
        try:
            places = self.spec.flatten_up_to(tree)
        except ValueError:
            return None
        return [place for place, leaf in zip(places, self.leaves, strict=True) if leaf is HOLE]


TENSOR = Layout(tree_structure(0), (HOLE,), 1)
# Plain tuples of tensors, by their length: what most forwards with several outputs return.
_ROWS = [Layout(tree_structure((0,) * count), (HOLE,) * count, count, is_row=True) for count in range(9)]


def flatten(tree: Any) -> tuple[Sequence[Tensor], Layout]:
    """The tensors of a tree in order, and its layout. Raises: UsageError, if tensors that require a gradient are hidden
    in a dataclass that torch does not see into.

    >>> import torch
    >>> tensors, layout = flatten({"a": [torch.ones(2), 3]})
    >>> layout.fill([7])
    {'a': [7, 3]}
    """
    if isinstance(tree, Tensor):
        return (tree,), TENSOR
    if type(tree) is tuple and len(tree) < len(_ROWS) and all(type(item) is Tensor for item in tree):
        return tree, _ROWS[len(tree)]
    leaves, spec = tree_flatten(tree)
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    if len(tensors) < len(leaves):
        _require_nothing_hidden(leaves)
    return tensors, Layout(spec, tuple(HOLE if isinstance(leaf, Tensor) else leaf for leaf in leaves), len(tensors))


def _require_nothing_hidden(leaves: Iterable[Any]) -> None:
    for leaf in leaves:
        if leaf is not None and is_dataclass(leaf) and not isinstance(leaf, type):  # None: for Dynamo of torch 2.9
            for field in fields(leaf):
                value = getattr(leaf, field.name, None)
                if isinstance(value, Tensor) and value.requires_grad:
                    kind = type(leaf).__name__
                    raise complaint(
                        f"a {kind} holds the tensor {field.name}, which requires a gradient",
                        why="tensors are found in tuples, lists and dicts; in a dataclass none would get its gradient",
                        do=f"hand over its tensors, or torch.utils._pytree.register_dataclass({kind})",
                    )


def never_holds_tensors(kind: type) -> bool:
    """Is a value of this type always a leaf that is no tensor and holds none that we could see?"""
    opened = kind in SUPPORTED_NODES or issubclass(kind, (Tensor, tuple)) or is_dataclass(kind)
    return not opened and kind is not torch.Size
