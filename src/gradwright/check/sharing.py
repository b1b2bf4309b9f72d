"""Do two calls of a Function share what their backwards need? Kept on the class, the last call's is what all find."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from gradwright.check.trial import TimeUp, Trial, flat, quiet


def gradient_around_another(trial: Trial) -> dict[int, torch.Tensor] | None:
    """The flat gradients of a call within whose forward and backward another whole call took place.

    The other call has inputs moved by about a thousandth and other floats; its backward comes first, as in
    ``f(f(x))``, so that a stack works. ``None`` where that raises. Cost: 6 calls, 2 backwards.
    """
    try:
        other = trial.nudged(trial.seed + 31)
        ours, theirs = trial.handed(), other.handed()
        changed = [value * 1.5 if type(value) is float else value for value in theirs.args]
        with quiet(trial.precision, trial.seed), torch.enable_grad():
            first = trial.outputs_of(trial.call(ours.args))
            second = trial.outputs_of(trial.call(changed))
            _gradients(trial, second, list(theirs.targets.values()))
            found = _gradients(trial, first, list(ours.targets.values()))
    except TimeUp:
        raise
    except Exception:  # the Function is someone else's code; its exceptions are told elsewhere
        return None
    return {
        index: torch.zeros_like(trial.inputs[index]) if gradient is None else flat(gradient)
        for index, gradient in zip(ours.targets, found, strict=True)
    }


def _gradients(
    trial: Trial, outputs: Sequence[torch.Tensor], targets: Sequence[torch.Tensor]
) -> tuple[torch.Tensor | None, ...]:
    chosen = [output for output, active in zip(outputs, trial.active, strict=True) if active]
    cotangents = [cotangent.clone() for cotangent in trial.cotangents]
    return torch.autograd.grad(chosen, targets, cotangents, allow_unused=True)
