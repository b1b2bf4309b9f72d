"""What it finds
    Arithmetic of a float32 (or half) tensor with a float64 tensor, which makes everything after it float64, inside a
    function whose inputs hold no float64.

Why it matters
    Twice the memory, half the speed on a CPU, and a small part of the speed on a GPU; and nobody asked for it: NumPy
    makes float64 by itself.

When it is fine
    A number, or a tensor without axes, promotes nothing. What is made float64 on purpose (`x.double()`), sums of halves
    in float32, and what costs little are not reported.

The fix
    The constant in the dtype of what it meets: `weights.to(x.dtype)`, `torch.linspace(0, 1, n, dtype=x.dtype)`.

References
    HIPS/autograd#199. "Type promotion" in torch's documentation of tensor attributes.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.costs import of_the_time, short, size, worth_a_word
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import CostlyExpression
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW312", "dtype-promoted", "warning", needs=(CostlyExpression,), rewrite="keep_dtype")


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for cost in worth_a_word(facts, "promoted"):
        yield RULE.finding(
            subject,
            at=cost.location,
            message=f"`{short(cost.text)}` turns float32 into float64: {size(cost.extra_bytes)} more are made",
            why=f"One operand is float64, the other is not, and all that follows is: {of_the_time(cost)} goes into "
            f"float64 (tried on {cost.tried_on}).",
            hints=["give the constant the dtype of what it meets: constant.to(x.dtype)"],
            evidence=[cost.id],
        )
