"""The losses of ``gw.losses`` that take logits, in a graph: of probabilities; and whose call a frame runs for.

Their nodes are those of kernels, which other losses share: which loss it was, the place of its call tells.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from torch import Tensor

from gradwright import losses
from gradwright.doctor.observe.training.near_root import (
    NEAR,
    PROBABILITIES,
    Doubled,
    kind,
    same_classes,
    through_views,
)
from gradwright.doctor.source.places import is_user_file
from gradwright.ground.graphs import graph_of
from gradwright.ground.torch_versions.nodes import forward_class

_FOLDER = str(Path(losses.__file__).parent) + os.sep
_NAMES = frozenset(dir(losses))


class _Logits(NamedTuple):
    """What a node may be, and the edge of its logits; ``axis`` of ``shape``: where their classes lie, if it has any."""

    losses: tuple[str, ...]
    edge: int
    axis: int = 0
    shape: tuple[int, ...] = ()


def doubled_in_ours(root: Tensor) -> Iterator[Doubled]:
    """``near_root.doubled``, of our own losses."""
    for node in graph_of([root], most=NEAR):
        logits = _logits_of(node)
        if logits is None:
            continue
        path = [node, *through_views(node, logits.edge)]
        inner, behind, chain = path[-1], kind(path[-1]), tuple(str(item.name()) for item in path)
        for loss in logits.losses:
            if behind in PROBABILITIES:
                made_by = PROBABILITIES[behind]
                yield Doubled("probabilities as logits", node, inner, loss, made_by, chain, only_by=loss)
            elif behind == "LogSoftmax" and logits.shape:
                same = same_classes(logits.axis, logits.shape, inner)
                yield Doubled(
                    "log-probabilities as logits", node, inner, loss, "log_softmax", chain, same, only_by=loss
                )


def _logits_of(node: Any) -> _Logits | None:
    """``None`` for what is no loss of ours of logits."""
    function = forward_class(node)
    if function is None or not function.__module__.startswith("gradwright."):
        return None
    if function.__name__ in ("_Rows", "_QueuedRows") and "z" in node.call.operands:
        shape = tuple(node.call.operands["z"].shape)
        return _Logits(("cross_entropy", "focal_loss"), 0, node.call.dim % max(len(shape), 1), shape)
    if function.__name__ in ("_OnePass", "_Fused"):
        given = zip(node.fusion.program.inputs, node.fusion.metas, strict=False)
        tensors = [name for name, meta in given if meta is not None]
        if {"input", "target"} <= {*tensors}:
            return _Logits(("binary_cross_entropy_with_logits", "binary_focal_loss"), tensors.index("input"))
    return None


def loss_around(frame: FrameType | None) -> str:
    """The name of the call into ``gw.losses`` that ``frame`` runs for, as the user made it; "" if there is none."""
    found = ""
    while frame is not None and not is_user_file(frame.f_code.co_filename):
        code = frame.f_code
        if code.co_filename.startswith(_FOLDER) and code.co_name in _NAMES:
            found = code.co_name
        frame = frame.f_back
    return found
