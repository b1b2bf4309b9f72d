"""What it finds
    A custom Function whose `apply` `torch.compile` traced inside `torch.func.grad` (`vjp`, `jacrev`, `grad_and_value`)
    that it traced as well: the compiled code differentiates the forward, and the Function's backward takes no part.

Why it matters
    Nothing raises and nothing warns, and without `torch.compile` the same line uses the backward. A straight-through
    estimator has a gradient of zero there, a clipped gradient is not clipped, a stable formula is not used.

When it is fine
    Where the backward is exactly the derivative of the forward's operations: the gradient is then the same, and only
    speed or stability is lost.

The fix
    Compile inside, differentiate outside: `torch.func.grad(torch.compile(f))` uses the backward, and so does
    `torch.autograd.grad(torch.compile(f)(x), x)`.

References
    pytorch/pytorch#193279.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import BackwardDropped
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW218", "backward-dropped-when-compiled", "warning", needs=(BackwardDropped,))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for dropped in facts.of(BackwardDropped):
        times = "" if dropped.times == 1 else f" ({dropped.times} times)"
        yield RULE.finding(
            subject,
            at=dropped.location,
            message=f"{subject.name}.backward takes no part: torch.compile traces it inside torch.func.grad",
            why=f"Seen while it was compiled{times}. The compiled code differentiates the forward instead: for a "
            f"Function whose backward says {dropped.asked:g}, this torch returned {dropped.returned:g}.",
            hints=[
                "compile inside, differentiate outside: torch.func.grad(torch.compile(f))",
                "or torch.autograd.grad(torch.compile(f)(x), x), which uses the backward, too",
            ],
            evidence=[dropped.id],
        )
