"""Is there arithmetic in a backward that is narrower than what it was given?"""

from __future__ import annotations

from typing import Any

import torch

from gradwright.checking.trial import TimeUp, Trial, quiet
from gradwright.ground.torch_versions.modes import TorchDispatchMode
from gradwright.ground.torch_versions.trees import tree_leaves


class _Dtypes(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types here
    """Notes the floating-point dtypes of all results; they may come in any order, and many times."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch has no types here
        self.seen: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.seen |= {
            leaf.dtype for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
        }
        return result


def narrow_dtypes(trial: Trial) -> tuple[torch.dtype, ...]:
    """The floating-point dtypes in the backward that are narrower than float64, the narrowest first.

    Empty where the trial is not one in float64, where the forward uses them too, or where it raises under a mode.
    Cost: 1 call, 1 backward.
    """
    if trial.precision.floor is not torch.float64:
        return ()
    forward, backward = _Dtypes(), _Dtypes()
    try:
        trial.tick()
        handed = trial.handed()
        with quiet(trial.precision, trial.seed), torch.enable_grad():
            with forward:
                outputs = trial.outputs_of(trial.call(handed.args))
            chosen = [output for output, active in zip(outputs, trial.active, strict=True) if active]
            cotangents = [cotangent.clone() for cotangent in trial.cotangents]
            with backward:
                torch.autograd.grad(chosen, list(handed.targets.values()), cotangents, allow_unused=True)
    except TimeUp:
        raise
    except Exception:  # the subject is someone else's code, run in a way its author did not foresee
        return ()
    narrow = {
        dtype for dtype in backward.seen - forward.seen if torch.finfo(dtype).eps > torch.finfo(torch.float64).eps
    }
    return tuple(sorted(narrow, key=lambda dtype: -torch.finfo(dtype).eps))


def representable(values: torch.Tensor, dtype: torch.dtype) -> bool:
    """Is every number one of ``dtype``, and some of them not zero?"""
    return bool(values.any()) and torch.equal(values.to(dtype).to(values.dtype), values)
