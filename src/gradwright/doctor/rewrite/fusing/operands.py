"""Whether a function of torch's takes what a formula is of: floating tensors, of one shape and dtype."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gradwright.doctor.source.seen import Seen, SeenValue

if TYPE_CHECKING:
    from torch import Tensor

_PYTHON = ("len", "min", "max", "abs")


def are_alike(nodes: Sequence[ast.expr], seen: Seen) -> bool:
    """Whether these were, in the run, floating tensors of one shape and dtype, none of them a single number.

    They are made again, of tensors without memory in the place of what was seen.
    """
    import torch

    room = {name: getattr(builtins, name) for name in _PYTHON}
    made: list[Tensor] = []
    for node in nodes:
        try:
            variables = {name: _made(value) for name, value in seen.live_ins.items()}
            code = compile(ast.fix_missing_locations(ast.Expression(node)), "operand", "eval", dont_inherit=True)
            found = eval(code, {"__builtins__": room, "torch": torch, **variables})
        except Exception:  # the user's own expression, of something that was not seen
            return False
        if not isinstance(found, torch.Tensor) or not found.is_floating_point() or not found.dim():
            return False
        made.append(found)
    return len({(one.shape, one.dtype) for one in made}) == 1


def _made(value: SeenValue) -> Any:
    import torch

    if value.tensor is None:
        return value.number
    return torch.empty(value.tensor.shape, dtype=getattr(torch, value.tensor.dtype), device="meta")
