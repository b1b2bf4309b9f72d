"""What it finds
    A loss of the script's, a function or a module's forward, that has the values and gradients of one of
    `gradwright.losses`, and is NaN, infinite or far off where that is not, or takes at least one and a half times as
    long. Told by its values at drawn inputs, in float64; names say nothing.

Why it matters
    A loss that is put together of operations goes through memory once for each of them, and the logarithm of a
    probability that was rounded to 0 is infinite: the training goes well until the first sample that is that certain.

When it is fine
    Where the loss is a small part of the step, and the predictions stay small. Where NaN began in it in the run itself,
    GW511 tells that, and this is information.

The fix
    One call of the library's loss: one or two passes over memory, sums in float64, finite at all finite predictions.

References
    The loss's own page says where it comes from. Issues of others: kornia#918, smp#463, optax#1267.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import KnownLoss, NonfiniteBegins
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW510", "loss-written-out", "warning", needs=(KnownLoss, NonfiniteBegins), rewrite="call_known_loss")
SLOWER = 1.5
LEAST_SECONDS = 2e-4  # a loss of a few microseconds is nobody's trouble


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for known in facts.of(KnownLoss):
        ratio = known.before_seconds / known.after_seconds if known.after_seconds else 0.0
        is_slow = ratio >= SLOWER and known.before_seconds >= LEAST_SECONDS
        if not known.wrong_at and not is_slow:
            continue
        faults = [
            *([known.wrong_at] if known.wrong_at else []),
            *([f"it takes {ratio:.1f} times as long"] if is_slow else []),
        ]
        yield RULE.finding(
            subject,
            at=known.location,
            message=f"{subject.name} is the library's {known.loss} written out, and {faults[0]}",
            why=f"It agrees with gradwright.losses.{known.loss} in value and gradient"
            + (f"; {'; '.join(faults[1:])}" if faults[1:] else "")
            + f" (tried on {known.tried_on}).",
            hints=[f"call the library's: losses.{known.call}"],
            evidence=[known.id],
            severity="info" if _is_told(known, facts) else None,
        )


def _is_told(known: KnownLoss, facts: Facts) -> bool:
    """NaN or inf began in it in the run itself: GW511 tells that, and this is another way to mend it."""
    place = known.location
    begins = (begin.location for begin in facts.all(NonfiniteBegins) if begin.location is not None)
    return any(at.path == place.path and place.line <= at.line <= place.end_line for at in begins)
