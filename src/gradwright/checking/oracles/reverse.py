"""Autograd through the Function's own forward: exact, where it sees everything.

It raises where the forward works in place on what autograd needs, sees nothing where the forward leaves torch, and is
silently wrong where the forward searches (a bisection's result does not depend smoothly on its inputs).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from gradwright.checking.context import is_function
from gradwright.checking.trial import TimeUp, Trial, largest_entry
from gradwright.ground.torch_versions.modes import set_grad_enabled_below

_ROUNDING = ("round", "floor", "ceil", "trunc", "fix", "sign", "sgn", "heaviside")


def plain_gradient(trial: Trial, mode: Any = None) -> dict[int, torch.Tensor] | None:
    """Flat gradients by input, ``None`` where this oracle has nothing to say. Cost: one forward, one backward."""
    if not is_function(trial.subject):
        return None
    try:
        found = trial.plain_gradient(mode=mode)
    except TimeUp:
        raise
    except Exception:  # the forward is someone else's code, run in a way its author did not foresee
        return None
    return found if all(math.isfinite(largest_entry(gradient)) for gradient in found.values()) else None


class Unstopped(TorchFunctionMode):
    """Lets gradients pass where the subject holds them back: ``detach()``, ``.data``, ``no_grad()``.

    ``seen`` holds the names of those that it used on something that a gradient flows through.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is set_grad_enabled_below and args and not args[0]:
            self.seen.add("no_grad")
            return None
        stopped = {torch.Tensor.detach: "detach", torch.Tensor.data.__get__: "data"}.get(func)  # type: ignore[attr-defined]  # torch's stub calls `data` a tensor
        if stopped is not None and args and isinstance(args[0], torch.Tensor) and args[0].requires_grad:
            self.seen.add(stopped)
            return args[0]
        return func(*args, **(kwargs or {}))


class StraightThrough(TorchFunctionMode):
    """Lets gradients pass through rounding (round, floor, ceil, trunc, sign, heaviside) as through the identity.

    ``seen`` holds the names of those that the forward called.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "").rstrip("_")
        if name in _ROUNDING and args and isinstance(args[0], torch.Tensor) and isinstance(result, torch.Tensor):
            self.seen.add(name)
            if args[0].is_floating_point() and result.shape == args[0].shape and not func.__name__.endswith("_"):
                return args[0] + (result - args[0]).detach()
        return result
