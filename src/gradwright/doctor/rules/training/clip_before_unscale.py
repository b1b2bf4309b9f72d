"""What it finds
    Calls of `clip_grad_norm_` or `clip_grad_value_` on gradients of a loss that a `GradScaler` scaled, before
    `scaler.unscale_(optimizer)`.

Why it matters
    The gradients are larger than the real ones by the scale, 65536 at first, so that the limit is smaller than it says
    by as much: every step is cut down to next to nothing, and by another factor whenever the scale changes.

When it is fine
    A limit above 1000 is taken for a measurement of the norm, or for one that was scaled as well. Gradients that the
    script unscaled itself are not judged. Where the scaler is disabled in this run nothing is wrong yet, and it is told
    as information.

The fix
    `scaler.unscale_(optimizer)` once, before the clipping: `scaler.step` knows of it.

References
    The documentation of `torch.amp`, Working with Unscaled Gradients.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import ClipOrder
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW604", "clip-before-unscale", "error", needs=(ClipOrder,))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for clip in facts.of(ClipOrder):
        if clip.scaled_calls == 0 or 2 * clip.scaled_calls < clip.calls:
            continue
        limit = f"limit of {clip.limit:g}" if clip.limit is not None else "limit"
        if not clip.scaler_enabled:
            effect = "The scaler is disabled in this run; where it is enabled, the limit acts on scaled gradients"
        elif clip.scale and clip.limit is not None:
            effect = (
                f"The loss was multiplied by {clip.scale:g}: a {limit} acts as one of {clip.limit / clip.scale:.2g}"
            )
        else:
            effect = f"The loss was multiplied by the scale: a {limit} is smaller by as much"
        yield RULE.finding(
            subject,
            at=clip.location,
            message="gradients are clipped before they are unscaled"
            + ("" if clip.scaler_enabled else " (the scaler is disabled here)"),
            why=f"{effect}. No unscale_ of {subject.name} came before {clip.scaled_calls} of {clip.calls} calls.",
            hints=["unscale first: scaler.unscale_(optimizer), then clip, then scaler.step(optimizer)"],
            evidence=[clip.id],
            severity="error" if clip.scaler_enabled else "info",
        )
