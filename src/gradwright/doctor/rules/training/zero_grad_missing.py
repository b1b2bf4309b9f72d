"""What it finds
    Optimizer steps (or updates of parameters by hand) whose gradients still hold those of the step before: nothing
    cleared them in between, neither `zero_grad` nor by hand, and a backward added to them. Observed on the gradients
    themselves, not on the text.

Why it matters
    `backward` adds to `.grad`. Without clearing, each step follows the sum of all gradients since the start, most of
    them of parameters that are long gone: the direction is no descent direction any more.

When it is fine
    Accumulation on purpose clears once per step, after it: that is not reported, and neither are gradients that are
    scaled down between steps.

The fix
    `optimizer.zero_grad()` once per step: before the backward (the first one, when several are accumulated).

References
    The documentation of `torch.optim.Optimizer.zero_grad`.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import OptimizerSteps
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW601", "zero-grad-missing", "error", needs=(OptimizerSteps,))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for steps in facts.of(OptimizerSteps):
        if steps.stale_steps == 0:
            continue
        # The first step of an optimizer has nothing before it that could be left over.
        always = steps.stale_steps >= steps.steps - steps.optimizers
        yield RULE.finding(
            subject,
            at=steps.backward_site or subject.location,
            message=f"gradients are never cleared between steps of {subject.name}"
            if always
            else f"gradients were not cleared before {steps.stale_steps} of {steps.steps} steps of {subject.name}",
            why=f"This backward added to gradients that step {steps.first_stale_step} had already used, and nothing "
            f"cleared them before the next step: seen at {steps.stale_steps} of {steps.steps} steps.",
            hints=["clear them once per step, before the backward: optimizer.zero_grad(), or p.grad = None by hand"],
            evidence=[steps.id],
        )
