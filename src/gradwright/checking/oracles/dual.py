"""Autograd through the Function's own forward on dual numbers: the derivative travels with the value.

Notation: the forward is run at x + ε u, ε² = 0, which gives f(x) + ε J u; <ȳ, J u> is what <Jᵀȳ, u> has to be.
Nothing is kept for a backward pass, so that a forward which works in place, where reverse mode raises, has an answer
here. No answer where an operation has no forward-mode derivative or the forward calls another Function; silently wrong
where the forward leaves torch for a part of the way, writes through ``.data``, multiplies a tensor by itself in place
(torch 2.13 then multiplies the tangent by the changed value), or searches.
"""

from __future__ import annotations

import math

import torch
import torch.autograd.forward_ad as forward_mode

from gradwright.checking.context import bound_arguments, is_function, run_forward
from gradwright.checking.copies import shaped_like
from gradwright.checking.trial import TimeUp, Trial, flat_view, quiet


def dual_slope(trial: Trial, index: int, direction: torch.Tensor) -> float | None:
    """<ȳ, J u> as input ``index`` moves along u = ``direction`` (flat); ``None`` where this oracle has nothing to say.

    Nothing, too, where no output has a tangent: zero, or a forward that torch does not see. Cost: one forward.
    Raises: TimeUp.
    """
    if not is_function(trial.subject) or index in trial.tied:
        return None
    try:
        trial.tick()
        args = trial.copied()
        needs = [position in trial.wanted for position in range(len(args))]
        with quiet(trial.precision, trial.seed), torch.no_grad(), forward_mode.dual_level():
            tangent = shaped_like(direction, args[index]).clone()  # what works on a value in place works on its tangent
            args[index] = forward_mode.make_dual(args[index], tangent)  # type: ignore[no-untyped-call]  # torch has no types here
            result, _ = run_forward(trial.subject, bound_arguments(trial.subject, args), needs)
            outputs = [o for o, on in zip(trial.outputs_of(result), trial.active, strict=True) if on]
            tangents = [_tangent(output) for output in outputs]
            pairs = [(c, t) for c, t in zip(trial.weights(), tangents, strict=True) if t is not None]
            slope = sum(float(weight @ flat_view(moved)) for weight, moved in pairs)
    except TimeUp:
        raise
    except Exception:  # the forward is someone else's code, run in a way its author did not foresee
        return None
    return slope if pairs and math.isfinite(slope) else None


def _tangent(output: torch.Tensor) -> torch.Tensor | None:
    tangent: torch.Tensor | None = forward_mode.unpack_dual(output).tangent  # type: ignore[no-untyped-call]
    return tangent
