"""What it finds
    Several backwards of one place that add up to one optimizer step, whose losses are means, and whose weights in the
    sum are not those of a mean over all of them: none is divided by their number; or by another number; or the last,
    short window of a round is divided by the full number, or what is left over of a round is added to the next one's
    first window; or micro-batches over unequal numbers of elements (tokens that count) weigh the same. The divisors
    and the numbers of elements are read from the graphs of the losses.

Why it matters
    With k losses undivided the gradient is k times that of the whole batch: the learning rate, clipping and weight
    decay mean something else than they say. Steps of another scale than the others are noise, and a mean of means over
    unequal numbers favours the elements of the small ones.

When it is fine
    Losses of different places (several objectives, both halves of a discriminator's) are no micro-batches, and neither
    are rounds that the text lists one by one (`for data, label in ((real, 1), (fake, 0))`). Sums need no divisor, and
    gradients that are divided by hand before the step are not judged. Backwards that share a graph (the steps of a
    sequence), reach different parameters (several heads) or are another number at each step (episodes) are left alone.
    If a sum over tasks is meant, say so with `# gradwright: ignore[GW603]`.

The fix
    `(loss / k).backward()` with k the number of micro-batches of this very step; for means over unequal numbers, sum
    each loss and divide by the number of elements of all micro-batches.

References
    The documentation of `torch.amp`, Gradient accumulation. Hugging Face, Fixing Gradient Accumulation, 2024.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import Accumulation
from gradwright.doctor.session.model import Finding, Severity, Subject

RULE = Rule("GW603", "accumulation-mis-scaled", "warning", needs=(Accumulation,))

_MOST = 0.8  # of the steps that show it
_FAR = 1.25  # between the numbers of elements of two micro-batches


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for seen in facts.of(Accumulation):
        if 2 * seen.accumulated < seen.windows:
            continue
        told = _scale(seen) or _remainder(seen) or _counts(seen)
        if told is not None:
            message, why, hints, severity = told
            yield RULE.finding(
                subject,
                at=seen.backward_at,
                message=message,
                why=why,
                hints=hints,
                evidence=[seen.id],
                severity=severity,
            )


Told = tuple[str, str, list[str], Severity]


def _scale(seen: Accumulation) -> Told | None:
    """All steps alike."""
    k = seen.usual
    # Where the number differs from step to step (episodes of a game), a sum may well be meant.
    steady = 2 * seen.usual_windows >= seen.accumulated
    if steady and seen.undivided >= 2 and seen.undivided >= _MOST * seen.accumulated:
        return (
            f"{k} losses add up to one step of {seen.optimizer}, and none of them is divided by {k}",
            f"Each loss is a mean over its own micro-batch, so the gradient of the step is {k} times that of all of "
            f"them together: at {seen.undivided} of {seen.accumulated} steps that accumulate.",
            [f"divide each loss by the number of micro-batches of the step: (loss / {k}).backward()"],
            "warning",
        )
    if seen.otherwise >= 2 and seen.otherwise >= _MOST * seen.usual_windows:
        d = int(seen.divisor)
        return (
            f"{k} losses add up to one step of {seen.optimizer}, but each is divided by {d}",
            f"Each loss is a mean over its own micro-batch, so the gradient of the step is {k}/{d} of that of all of "
            f"them together: at {seen.otherwise} of {seen.usual_windows} steps of {k} micro-batches.",
            [f"divide by the number of micro-batches of the step, {k}, or step after {d} of them"],
            "warning",
        )
    return None


def _remainder(seen: Accumulation) -> Told | None:
    """Steps of another size than the others."""
    k = seen.usual
    if seen.right == 0 or (seen.short == 0 and seen.long == 0):
        return None
    if seen.long:
        return (
            f"step {seen.first_long_step} of {seen.optimizer} is made of {seen.long_size} micro-batches, each divided "
            f"by {k}: some are left over from before",
            f"{seen.long} of {seen.windows} steps had more than the {k} micro-batches that each loss is divided by: "
            "those behind the last step of a round stay in the gradients and are added to the next round's.",
            ["step at the end of the round as well, or clear the gradients where a round begins"],
            "warning",
        )
    return (
        f"step {seen.first_short_step} of {seen.optimizer} is made of {_micro_batches(seen.short_size)}, each divided "
        f"by {k} like those of the other steps",
        f"The gradient of a step of fewer than {k} micro-batches is a part of their mean (here "
        f"{seen.short_size}/{k}): at {seen.short} of {seen.windows} steps.",
        ["divide by the number of micro-batches that this step has, or leave the short one out"],
        "warning",
    )


def _micro_batches(number: int) -> str:
    return "1 micro-batch" if number == 1 else f"{number} micro-batches"


def _counts(seen: Accumulation) -> Told | None:
    """Means over unequal numbers."""
    if seen.unequal < 2 or 2 * seen.unequal < seen.counted or not any(seen.counts):
        return None
    most, least = max(seen.counts), min(count for count in seen.counts if count)  # some may have nothing that counts
    far = most >= _FAR * least
    numbers = ", ".join(f"{count:g}" for count in seen.counts)
    return (
        f"means over unequal numbers of elements ({numbers}) weigh the same in a step of {seen.optimizer}",
        f"An element of the smallest micro-batch counts {most / least:.3g} times as much as one "
        f"of the largest at step {seen.first_unequal_step}; unequal at {seen.unequal} of {seen.counted} steps.",
        ["sum each loss (reduction='sum') and divide it by the number of elements of all micro-batches of the step"],
        "warning" if far else "info",
    )
