"""What torch imports in the middle of a call: loaded before anything is timed or forked, it is paid for once."""

from __future__ import annotations

import importlib
import sys

# torch.autograd.grad and backward, where they are given cotangents (seen in torch 2.13, 2026-11-28): it brings sympy,
# half a second to two.
_SYMBOLIC = "torch.fx.experimental.symbolic_shapes"


def import_what_cotangents_need() -> None:
    """Costs nothing from the second time on."""
    if _SYMBOLIC not in sys.modules:
        importlib.import_module(_SYMBOLIC)
