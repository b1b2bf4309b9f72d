"""What it finds
    A backward that computes the gradient of an input which wanted none in any call of the run, and takes at least 3 %
    of the watched time and a tenth of the backward for it, by the time of the operations that only this gradient needs.

Why it matters
    The engine throws the result away. For a linear layer on data, or with frozen weights, it is half of the backward.

When it is fine
    When other runs do want it, and this one is the exception: the guard then costs nothing.

The fix
    `ctx.needs_input_grad[k]` says in the backward whether the gradient of input k is wanted:
    `grad_x = grad_output @ w.t() if ctx.needs_input_grad[0] else None`.

References
    "Extending torch.autograd" in the notes of PyTorch (its LinearFunction); NVIDIA/torch-harmonics#189.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import FunctionCalls, UnneededGradient
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW305", "gradients-nobody-needs", "warning", needs=(UnneededGradient,), rewrite="guard_gradients")

_OF_STEP = 0.05
_OF_BACKWARD = 0.1
_SECONDS = 100e-6  # below that it is the noise of a small script


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    calls = next(iter(facts.of(FunctionCalls)), None)
    for found in facts.of(UnneededGradient):
        small = found.share_of_step < _OF_STEP or found.share_of_backward < _OF_BACKWARD or found.seconds < _SECONDS
        if small or subject.origin == "library":
            continue
        names = " and ".join(found.names)
        times = f"{calls.backward_calls:,} of {calls.backward_calls:,} backwards" if calls else "every backward"
        yield RULE.finding(
            subject,
            at=(calls.backward_at if calls else None) or subject.location,
            message=f"{subject.name}.backward computes the gradient of {names}, which nobody wants: "
            f"{found.share_of_backward * 100:.0f} % of the backward",
            why=f"In {times} ctx.needs_input_grad was False for {names}. {found.operations} "
            f"operation{'s' if found.operations != 1 else ''} of each and {found.bytes:,} bytes are for "
            f"{'them' if len(found.names) > 1 else 'it'} alone ({found.tried_on}).",
            hints=[
                f"compute it where it is wanted: `... if ctx.needs_input_grad[{found.indices[0]}] else None`",
            ],
            evidence=[found.id],
        )
