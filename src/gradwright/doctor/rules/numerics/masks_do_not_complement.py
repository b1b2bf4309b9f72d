"""What it finds
    A sum of terms with masks, where one mask is a comparison of something (`near = error <= delta`) and the other is
    one minus that thing itself (`far = 1 - error`) where one minus the mask was meant.

Why it matters
    The second factor is no mask: it is not 0 or 1, it becomes negative as soon as the compared value exceeds 1, and
    grows with it. A loss made of such terms is negative from the start, falls without bound as the error grows, and
    ends in inf and nan. The operation that overflows first is then a harmless square far from the fault.

When it is fine
    `1 - mask`, `~mask`, and `1 - p` of a probability or a label are no such fault and are not reported; neither is
    `1 - z` inside its own mask, as in a hinge.

The fix
    `torch.where(error <= delta, a, b)` says it in one line; with masks, `far = ~near`, or `1 - near.float()`.

References
    P. J. Huber, Robust Estimation of a Location Parameter, 1964. The documentation of `torch.where`.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import LossValues, MaskPair
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW501", "masks-do-not-complement", "error", needs=(MaskPair, LossValues))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    pairs = list(facts.of(MaskPair))
    harmed = next((loss for loss in facts.all(LossValues) if _consequences(loss)), None) if pairs else None
    for pair in pairs:
        seen = f": {_consequences(harmed)}" if harmed is not None else ""
        mask = pair.mask if pair.mask.isidentifier() else f"({pair.mask})"
        yield RULE.finding(
            subject,
            at=pair.location,
            message=f"`{pair.complement}` does not complement the mask `{pair.mask}`{seen}",
            why=f"It is 1 - {pair.compared} where 1 - mask was meant: no 0 or 1, but a factor that is negative where "
            f"{pair.compared} exceeds 1. A loss made of it falls without bound as {pair.compared} grows.",
            hints=[
                "choose between the two with torch.where(condition, a, b)",
                f"or complement the mask itself: 1 - {mask}.float()",
            ],
            evidence=[pair.id, *([harmed.id] if harmed is not None else [])],
        )


def _consequences(loss: LossValues) -> str:
    """What the run shows of it, in words; "" if nothing."""
    parts = []
    if loss.first_negative_step is not None:
        step = loss.first_negative_step
        value = loss.history[step] if step < len(loss.history) else loss.first if step == 0 else loss.lowest
        parts.append(f"the loss was {value:.3g} at step {step}")
    elif loss.lowest < 0:
        parts.append(f"the loss fell to {loss.lowest:.3g}")
    if loss.first_nonfinite_step is not None:
        what = loss.first_nonfinite or "not finite"
        parts.append(f"{'the loss was ' if not parts else ''}{what} from step {loss.first_nonfinite_step} on")
    return " and ".join(parts)
