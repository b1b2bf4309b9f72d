"""What it finds
    A product of tensors that broadcast against each other, made whole and then summed over an axis they share, where
    the product is at least twice as large as its factors and its sum, and the expression takes at least a tenth of the
    time of its function and 5 % of the watched time.

Why it matters
    `(a[:, :, None] * b[None]).sum(1)` writes n * k * m numbers to memory and reads them again, for a result of n * m:
    a matrix product, which is the best-tuned loop there is, never holds them.

When it is fine
    When the tensors are small: then it is not reported.

The fix
    `torch.einsum("ij,jk->ik", a, b)`, or `a @ b`. It sums in another order, so that the last digits differ.

References
    The documentation of `torch.einsum`.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.costs import of_the_time, short, size, times_the_minimum, worth_a_word
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import CostlyExpression
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule(
    "GW306", "product-materialised-then-summed", "warning", needs=(CostlyExpression,), rewrite="contract_product"
)


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for cost in worth_a_word(facts, "product summed"):
        yield RULE.finding(
            subject,
            at=cost.location,
            message=f"`{short(cost.text)}` makes a product of {size(cost.extra_bytes)} only to sum it",
            why=f"It moves {times_the_minimum(cost)} and takes {of_the_time(cost)} (tried on {cost.tried_on}).",
            hints=["torch.einsum, or a matrix product, sums while it multiplies"],
            evidence=[cost.id],
        )
