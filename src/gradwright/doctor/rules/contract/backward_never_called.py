"""What it finds
    A custom Function whose forward ran on inputs that require a gradient, in a run that computed gradients afterwards,
    and whose backward was not called once. Or one whose `forward` is called directly, and whose `apply` is not called
    anywhere: then autograd differentiates what the forward does, and its backward is never asked.

Why it matters
    The hand-made gradient takes no part in the training: the output was detached, re-wrapped or not used in the loss.

When it is fine
    In a run that only looks at the output, or where the loss that uses it comes later than the run went.

The fix
    Call `MyFunction.apply(...)`, never `MyFunction.forward(...)`. Else follow the output: `.detach()`, `.item()`,
    `.data`, `torch.tensor(...)` or a missing term cut it from the loss.

References
    The autograd mechanics note of PyTorch ("Extending PyTorch").
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import DirectForward, FunctionCalls
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW205", "backward-never-called", "warning", needs=(FunctionCalls, DirectForward))

_CALLS = 2  # one gradient call after it may have been about something else


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for direct in facts.of(DirectForward):
        yield RULE.finding(
            subject,
            at=direct.location,
            message=f"{subject.name}.backward is never called: {subject.name}.forward is called directly",
            why="Only apply puts a Function into the graph. Called directly, the forward is a plain function: autograd "
            "differentiates its operations, and the backward takes no part.",
            hints=[f"call {subject.name}.apply(...), without ctx"],
            evidence=[direct.id],
        )
    if subject.origin == "library":
        return
    for calls in facts.of(FunctionCalls):
        if calls.tracked_calls and not calls.backward_calls and calls.gradient_calls_since >= _CALLS:
            yield RULE.finding(
                subject,
                at=calls.call_site or subject.location,
                message=f"{subject.name}.backward was never called",
                why=f"Its forward ran {calls.tracked_calls} times on inputs that require a gradient, and "
                f"{calls.gradient_calls_since} gradient calls followed: none went through it.",
                hints=["look for what cuts its output from the loss: .detach(), .item(), .data, torch.tensor(...)"],
                evidence=[calls.id],
            )
