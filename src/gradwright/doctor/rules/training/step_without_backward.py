"""What it finds
    Steps of an optimizer with no backward since the step before, and the very same gradients: they are followed twice.
    And a loop that has backward and step in the wrong order, so that the first step has no gradient at all and the last
    backward is used by none.

Why it matters
    The second step goes on in a direction that was computed somewhere else, at double the rate. In the wrong order each
    step lags behind, and what was learnt last is lost.

When it is fine
    Steps with a closure, gradients that are set or changed by hand, steps that a `GradScaler` leaves out, and a first
    step ahead of the training (to quiet a scheduler) are not reported.

The fix
    One `optimizer.step()` after each backward (or after the last, when several are accumulated).

References
    The documentation of `torch.optim`, Taking an optimization step.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import StepOrder
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW608", "step-without-backward", "warning", needs=(StepOrder,))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for order in facts.of(StepOrder):
        if order.repeated_steps >= 2:
            yield RULE.finding(
                subject,
                at=order.repeated_at or subject.location,
                message=f"{subject.name} steps again with the gradients of the step before",
                why=f"No backward ran in between and the gradients are the same objects, unchanged: at "
                f"{order.repeated_steps} of {order.steps} steps, first at step {order.first_repeated_step}.",
                hints=["take one step per backward"],
                evidence=[order.id],
            )
        elif order.early:
            yield RULE.finding(
                subject,
                at=order.step_at or subject.location,
                message=f"the step of {subject.name} comes before the backward: the first one has no gradient",
                why=f"No backward had run before step 0 and no parameter had a gradient; each of the "
                f"{order.fed_steps} steps after it follows the gradient of the round before, and the last backward is "
                "used by no step.",
                hints=["call loss.backward() first, then optimizer.step()"],
                evidence=[order.id],
            )
