"""What it finds
    Steps of an optimizer with gradients of a loss that a `GradScaler` scaled, and that nothing unscaled:
    `optimizer.step` was called where `scaler.step(optimizer)` was meant.

Why it matters
    The gradients are larger than the real ones by the scale, 65536 at first. SGD is thrown off at once; Adam, which
    divides by their size, hides it, but gradients that overflowed are stepped on as well.

When it is fine
    After `scaler.unscale_(optimizer)`, or once the script has divided the gradients itself, nothing is reported.

The fix
    `scaler.step(optimizer)` and `scaler.update()`.

References
    The documentation of `torch.amp`, Typical Mixed Precision Training.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import StepOrder
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW609", "step-with-scaled-gradients", "error", needs=(StepOrder,))

_BY_SIZE = ("Adam", "RMSprop", "Adagrad", "Adadelta", "Rprop", "NAdam", "RAdam", "Lion", "LAMB", "Lamb")


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for order in facts.of(StepOrder):
        if order.scaled_steps == 0 or 2 * order.scaled_steps < order.fed_steps:
            continue
        scale = f"{order.scale:g}" if order.scale else "the scale"
        yield RULE.finding(
            subject,
            at=order.scaled_at or subject.location,
            message=f"{subject.name} steps with gradients that are {scale} times too large: nothing unscaled them",
            why=f"The loss was scaled by the GradScaler, and neither scaler.step nor unscale_ came before "
            f"{order.scaled_steps} of {order.fed_steps} steps that a backward came before.",
            hints=["take the step with the scaler: scaler.step(optimizer), scaler.update()"],
            evidence=[order.id],
            severity="warning" if subject.name.startswith(_BY_SIZE) else "error",
        )
