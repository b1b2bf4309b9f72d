"""What it finds
    An operation whose derivative does not exist at a value that the inputs hold (the square root at 0, a quotient or a
    logarithm in the branch of a `torch.where` that is not taken), so that the gradient by autograd is NaN although
    inputs and results are finite. It is looked for in functions that `gw.diagnose` is given, and in Functions whose
    backward calls `torch.autograd.grad`.

Why it matters
    inf * 0 is NaN. One point that coincides with another, one empty row, and every weight is NaN after the next step;
    the loss before that looks right.

When it is fine
    Never, where the value occurs. Where the gradient is infinite and not NaN (`x.sqrt()` at 0), it is what it is, and
    not reported.

The fix
    A norm by `torch.linalg.vector_norm`, whose gradient at 0 is 0; else the safe double `where`: guard the operand of
    the operation, not only its result.

References
    pytorch/pytorch#2421. JAX's FAQ, "gradients contain NaN where using where".
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import UndefinedGradient
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW509", "derivative-undefined-at-boundary", "error", needs=(UndefinedGradient,), rewrite="guard_boundary")


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for broken in facts.of(UndefinedGradient):
        times = "once" if broken.entries == 1 else f"at {broken.entries} entries"
        yield RULE.finding(
            subject,
            at=broken.location,
            message=f"the gradient of `{broken.input_name}` is NaN: `{broken.text}` has no derivative at "
            f"{broken.value:g}, which it meets {times}",
            why=f"{_why(broken)} (tried on {broken.tried_on}).",
            hints=[_do(broken)],
            evidence=[broken.id],
        )


def _why(broken: UndefinedGradient) -> str:
    if broken.taken:
        return "Its result is finite there, its derivative is not, and inf * 0 further on is NaN"
    return "Nobody uses its result there, but the 0 that comes back is multiplied by its derivative, and inf * 0 is NaN"


def _do(broken: UndefinedGradient) -> str:
    if not broken.taken:
        return "guard the operand as well: torch.where(ok, f(torch.where(ok, x, 1)), other)"
    if broken.operation in ("sqrt", "pow"):
        return "write a norm as torch.linalg.vector_norm, or guard the operand of the root with torch.where"
    return "choose another value for the operand there, with torch.where, before the operation"
