"""What it finds
    A loss that `backward` was called on while it was nan or infinite. Observed on the values of the run.

Why it matters
    Its gradients are nan as well, and one optimizer step makes every parameter nan: all that follows is lost, mostly
    without a word.

When it is fine
    With a gradient scaler that skips such steps (mixed precision), an infinite loss now and then is part of the plan.

The fix
    Look at the loss before: if it grew for many steps, it diverged (a smaller learning rate, gradient clipping). If it
    was small, look for the logarithm or the division of a zero, a square root at zero, or an exponential of a large
    number, and for nan in the data.

References
    The documentation of `torch.autograd.set_detect_anomaly`, which names a backward that returns nan (but not inf).
"""

import math
from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import LossValues, NonfiniteBegins
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule(
    "GW502", "loss-not-finite", "error", needs=(LossValues, NonfiniteBegins), causes=("GW501", "GW511", "GW631")
)

_GREW = 100.0


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for loss in facts.of(LossValues):
        step = loss.first_nonfinite_step
        if step is None:
            continue
        before = [value for value in loss.history[:step] if math.isfinite(value)]
        is_explained = any(facts.all(NonfiniteBegins))
        first = f"It was {before[0]:.3g} at step 0" if before else ""
        last_step, value = loss.last_before(step) or (0, 0.0)
        last = f"{first} and {value:.3g} at step {last_step}. " if last_step > 0 else first and f"{first}. "
        yield RULE.finding(
            subject,
            at=subject.location,
            message=f"the loss is {loss.first_nonfinite or 'not finite'} from step {step} on"
            if not math.isfinite(loss.last)
            else f"the loss was {loss.first_nonfinite or 'not finite'} at step {step}",
            why=f"{last}backward of such a loss gives gradients that are nan, and the next optimizer step puts them "
            "into every parameter.",
            # Where it begins was found: what to do about it is said there.
            hints=[] if is_explained else [_advice(before, value)],
            evidence=[loss.id],
            severity="info" if is_explained else None,
        )


def _advice(before: list[float], last: float) -> str:
    if not before:
        return (
            "it was so from the start: look at the data and at the first parameters, and for a logarithm or a "
            "division of zero in the loss"
        )
    if abs(last) > _GREW * max(abs(before[0]), 1.0):
        return (
            "it diverged: a smaller learning rate, gradient clipping, or a fault that lets the loss grow without bound"
        )
    return (
        "it was finite right before: look for the logarithm, division or square root of a zero, or a large exponential"
    )
