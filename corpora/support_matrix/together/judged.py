"""The verdict of a kind under a transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..verdict import Verdict, judge
from .kinds import KINDS, Kind
from .transforms import COMPILED, TRANSFORMS, linearized

_SLOW = {*COMPILED, linearized}  # traced: up to a second each
_FEW = {"input saved", "two inputs", "two outputs", "tuple in", "mask handed over", "one after another"}
CASES = [(transform, kind) for transform in TRANSFORMS for kind in KINDS if transform not in _SLOW or kind.name in _FEW]


def judged(transform: Callable[..., Any], kind: Kind) -> Verdict:
    """Torch's operators say what is right, not compiled; raises, if they do."""
    right = COMPILED.get(transform, transform)(kind.right, kind.inputs)
    return judge(lambda: (transform(kind.ours, kind.inputs), right))
