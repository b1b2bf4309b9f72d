"""What the nodes of ``gradwright.losses`` and ``gw.elementwise`` sum and mix, by what they keep of their call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gradwright.ground.torch_versions.nodes import forward_class, output_metadata

_OF_SUMS = ("_OfSums", "_QueuedSums")
_ROWS = ("_Rows", "_QueuedRows")


class Ours(NamedTuple):
    """Of the first input: axes that are ``mixed``, in words ``how``, and axes that are ``summed`` behind that."""

    mixed: Sequence[int] = ()
    how: str = ""
    summed: Sequence[int] = ()


def axes_of(node: Any, shape: Sequence[int]) -> Ours | None:
    """None for a node that is not of ours."""
    author = forward_class(node)
    if author is None or not author.__module__.startswith("gradwright."):
        return None
    name, every = author.__name__, range(len(shape))
    if name in _OF_SUMS:
        return Ours([axis for axis in every if axis != node.arguments.dim], "quotients of sums")
    if name in _ROWS:
        dim = node.call.dim % len(shape)
        return Ours([dim], "a softmax or a norm", [axis for axis in every if axis != dim] if node.is_reduced else ())
    if name == "_Extension":  # [N, C, P] to [rows, C]: one row of all images, or a row for each
        rows = output_metadata(node)[0].shape[0]
        return Ours([2] if rows == shape[0] else [0, 2], "a sort")
    return Ours((), "", list(every)) if name == "_OnePass" else None
