"""What it finds
    Calls of `clip_grad_norm_` or `clip_grad_value_` between an optimizer's step and the next backward, where nothing is
    clipped after that backward: what is clipped is used by no step.

Why it matters
    The steps follow gradients that were never clipped. Nothing says so until one of them explodes.

When it is fine
    A second clipping before the backward does no harm and is not reported, nor is one with a limit above 1000.

The fix
    Clip after the backward (the last one, when several are accumulated) and before the step.

References
    The documentation of `torch.nn.utils.clip_grad_norm_`.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import ClipOrder, StepOrder
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW605", "clip-misplaced", "warning", needs=(ClipOrder, StepOrder))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    if any(order.emptied_steps for order in facts.of(StepOrder)):
        return  # GW602 tells it: there was nothing left to clip
    for clip in facts.of(ClipOrder):
        if clip.idle_steps >= 2 and clip.idle_steps >= 0.8 * clip.steps:
            yield RULE.finding(
                subject,
                at=clip.location,
                message=f"`{clip.function}` clips gradients that no step of {subject.name} uses",
                why=f"It runs between a step and the next backward, and nothing is clipped between that backward and "
                f"the step that follows: at {clip.idle_steps} of {clip.steps} steps.",
                hints=["move it between the backward and the step"],
                evidence=[clip.id],
            )
