"""What it finds
    Steps of an optimizer whose gradients were cleared between the backward and the step: a backward had reached its
    parameters, and when the step came every gradient was missing or zero. And accumulation that clears in between: of
    several backwards of one place the last one's gradients alone are left. Observed on the gradients themselves.

Why it matters
    The step has no gradient to follow, nothing is learnt, nothing is said, and the loss stays where it was; or most of
    the work of a step is thrown away.

When it is fine
    A step now and then whose gradients are thrown away on purpose (they were not finite) is not reported, and neither
    is a clearing after which gradients are computed again or set by hand.

The fix
    Clear before the backward or after the step: `optimizer.zero_grad()`, `loss.backward()`, `optimizer.step()`; when
    several backwards accumulate, once per step.

References
    The documentation of `torch.optim.Optimizer.zero_grad`.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import StepOrder
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW602", "zero-grad-misplaced", "error", needs=(StepOrder,))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for order in facts.of(StepOrder):
        yield from _wasted(subject, order)
        always = order.emptied_steps == order.fed_steps
        if order.emptied_steps == 0 or (not always and 2 * order.emptied_steps < max(order.fed_steps, 4)):
            continue
        by = f"`{order.cleared_by}`" if order.cleared_at is not None and order.cleared_by else "The script itself"
        backward = f" of line {order.backward_at.line}" if order.backward_at is not None else ""
        yield RULE.finding(
            subject,
            at=order.cleared_at or subject.location,
            message=f"gradients are cleared between the backward and the step of {subject.name}, which then has none",
            why=f"{by} cleared them after the backward{backward}: every gradient was missing or zero at "
            f"{order.emptied_steps} of {order.fed_steps} steps that a backward came before, first at step "
            f"{order.first_emptied_step}.",
            hints=["clear before the backward or after the step: optimizer.zero_grad(), loss.backward(), step()"],
            evidence=[order.id],
            severity="error" if always else "warning",
        )


def _wasted(subject: Subject, order: StepOrder) -> Iterator[Finding]:
    """Without the divisor only where there are many: somebody may want to see gradients before the last backward."""
    divided = 2 * order.wasted_divided >= order.wasted_steps
    if order.wasted_steps < 2 or order.wasted_steps < 0.8 * order.fed_steps:
        return
    if divided or order.wasted_backwards > 2:
        k = order.wasted_backwards
        by = f"`{order.wasted_by}`" if order.wasted_by else "The script itself"
        seen = f", which are divided by {k}" if divided else ""
        yield RULE.finding(
            subject,
            at=order.wasted_at or subject.location,
            message=f"of {k} backwards before a step of {subject.name} the gradients of the last alone are left",
            why=f"{by} cleared them between backwards of the same place{seen}: at {order.wasted_steps} of "
            f"{order.fed_steps} steps.",
            hints=["clear once per step, right after it: what several backwards add up must stay until then"],
            evidence=[order.id],
            severity="error" if divided else "warning",
        )
