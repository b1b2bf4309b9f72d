"""What comes between a forward and its backward: another call, other random numbers. Neither may change a gradient.

Kept on the class instead of on ``ctx``, the last call's is what all find; a mask drawn again is another mask.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from gradwright.checking.trial import TimeUp, Trial, flat, quiet


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
    return _by_input(trial, ours.targets, found)


def gradient_after_other_draws(trial: Trial) -> dict[int, torch.Tensor] | None:
    """The flat gradients where the backward finds other random numbers than if it had followed the forward at once.

    ``None`` where that raises. Cost: 1 call, 1 backward.
    """
    try:
        trial.tick()
        handed = trial.handed()
        with quiet(trial.precision, trial.seed), torch.enable_grad():
            outputs = trial.outputs_of(trial.call(handed.args))
        with quiet(trial.precision, trial.seed + 7919), torch.enable_grad():
            found = _gradients(trial, outputs, list(handed.targets.values()))
    except TimeUp:
        raise
    except Exception:  # the Function is someone else's code; its exceptions are told elsewhere
        return None
    return _by_input(trial, handed.targets, found)


def _by_input(trial: Trial, indices: Iterable[int], found: Sequence[torch.Tensor | None]) -> dict[int, torch.Tensor]:
    return {
        index: torch.zeros_like(trial.inputs[index]) if gradient is None else flat(gradient)
        for index, gradient in zip(indices, found, strict=True)
    }


def _gradients(
    trial: Trial, outputs: Sequence[torch.Tensor], targets: Sequence[torch.Tensor]
) -> tuple[torch.Tensor | None, ...]:
    chosen = [output for output, active in zip(outputs, trial.active, strict=True) if active]
    cotangents = [cotangent.clone() for cotangent in trial.cotangents]
    return torch.autograd.grad(chosen, targets, cotangents, allow_unused=True)
