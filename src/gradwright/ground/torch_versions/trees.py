"""Trees of values: torch's own pytrees, which have no public name in torch 2.13."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from gradwright.ground.torch_versions.capability import Capability, look_up, look_up_class


class _Pair(NamedTuple):
    first: int
    second: int


def _probe() -> str | None:
    tree = {"a": [1, (2, 3)], "b": _Pair(4, 5)}
    leaves, spec = tree_flatten(tree)
    doubled = tree_map(lambda leaf: 2 * leaf, tree)
    whole = leaves == tree_leaves(tree) == [1, 2, 3, 4, 5] and tree_unflatten(leaves, spec) == tree
    whole = whole and tree_structure(tree) == spec and spec.flatten_up_to(doubled) == [2, 4, 6, 8, 10]
    whole = whole and [child.num_leaves for child in children_of(spec)] == [3, 2]
    return None if whole and doubled == {"a": [2, (4, 6)], "b": _Pair(8, 10)} else f"its leaves are {leaves}"


#: Taking nested arguments apart and putting them together again.
TREES = Capability("torch.utils._pytree", "nested arguments and results", _probe)

if TYPE_CHECKING:
    from torch.utils._pytree import TreeSpec as TreeSpec
    from torch.utils._pytree import tree_flatten as tree_flatten
    from torch.utils._pytree import tree_leaves as tree_leaves
    from torch.utils._pytree import tree_map as tree_map
    from torch.utils._pytree import tree_map_only as tree_map_only
    from torch.utils._pytree import tree_structure as tree_structure
    from torch.utils._pytree import tree_unflatten as tree_unflatten
else:
    TreeSpec = look_up_class("torch.utils._pytree.TreeSpec", TREES)
    tree_flatten = look_up("torch.utils._pytree.tree_flatten", TREES)
    tree_leaves = look_up("torch.utils._pytree.tree_leaves", TREES)
    tree_map = look_up("torch.utils._pytree.tree_map", TREES)
    tree_map_only = look_up("torch.utils._pytree.tree_map_only", TREES)
    tree_structure = look_up("torch.utils._pytree.tree_structure", TREES)
    tree_unflatten = look_up("torch.utils._pytree.tree_unflatten", TREES)
register_dataclass: Callable[..., None] = look_up("torch.utils._pytree.register_dataclass", TREES)
#: The types that are nodes of a tree.
SUPPORTED_NODES: Any = look_up("torch.utils._pytree.SUPPORTED_NODES", TREES)


def children_of(spec: TreeSpec) -> list[TreeSpec]:
    """The specs of a tree's branches; torch 2.9 has them as a field."""
    children: list[TreeSpec] = spec.children() if hasattr(spec, "children") else spec.children_specs
    return children
