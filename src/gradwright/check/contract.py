"""What the engine asks of a backward beside the values: one gradient per input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gradwright.check.chance import signed
from gradwright.check.context import FunctionType, bound_arguments, run_backward, run_forward
from gradwright.check.copies import fresh_copy
from gradwright.check.trial import HALF, quiet


def count_gradients(
    function: FunctionType, args: Sequence[Any], wanted: Sequence[bool], *, seed: int = 0
) -> tuple[int, int] | None:
    """(expected, returned): how many inputs the forward takes, how many gradients the backward returns for them.

    As torch counts (python_function.cpp, ``PyNode::apply``): surplus gradients are cut off where all of them are
    ``None``, so trailing ``None`` beyond the inputs are not counted. ``None`` if it can't be told, because forward or
    backward raises when called directly. Cost: one forward, one backward.
    """
    try:
        with quiet(HALF, seed), torch.no_grad():
            copied = fresh_copy(args).args
            expected = len(bound_arguments(function, copied))
            _, ctx = run_forward(function, copied, wanted)
            generator = torch.Generator().manual_seed(seed)
            cotangents = [
                None if output is None else signed(output.shape, generator).to(output.device, output.dtype)
                for output in ctx.outputs
            ]
            returned = run_backward(function, ctx, cotangents)
    except Exception:  # the Function is someone else's code; its exceptions are told elsewhere
        return None
    count = len(returned)
    if count > expected and all(surplus is None for surplus in returned[expected:]):
        count = expected
    return expected, count
