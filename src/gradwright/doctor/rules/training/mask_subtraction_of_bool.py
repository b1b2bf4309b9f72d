"""What it finds
    `1 - mask`, `a - b` or `-mask` with a bool tensor: "Subtraction, the `-` operator, with a bool tensor is not
    supported".

Why it matters
    A comparison gives bool, and bool has no subtraction. The complement of a mask is `~mask`. Casting whatever
    stands there until the minus works is how `1 - error` comes to be used for `1 - mask`, and then the loss is
    wrong in silence.

When it is fine
    Never as it stands, since it raises.

The fix
    `~mask` for the complement, `mask_a ^ mask_b` for the difference of two masks, `mask.to(x.dtype)` where numbers
    0 and 1 are needed; `torch.where(mask, a, b)` instead of `mask * a + (1 - mask) * b`, which turns an inf or NaN
    on the masked side into a NaN.

References
    torch.logical_not, torch.where in the PyTorch documentation.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.deaths import bracketed, deaths, listed
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import ScriptDied
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule(
    "GW618",
    "mask-subtraction-of-bool",
    "error",
    needs=(ScriptDied,),
    messages=(
        r"Subtraction, the `-` operator, with (?P<which>a bool tensor|two bool tensors) is not supported",
        r"Negation, the `-` operator, on (?P<which>a bool tensor) is not supported",
    ),
)


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for death in deaths(RULE, facts):
        masks, inverted = death.clues("mask"), death.clue("inverted")
        short = bracketed(inverted, "mask")
        if inverted:
            hints = [f"the complement of a mask is ~{short}; where numbers are needed, (~{short}).to(x.dtype)"]
        elif death.caught("which").startswith("two"):
            hints = ["where two masks differ: mask_a ^ mask_b; in the first but not the second: mask_a & ~mask_b"]
        else:
            hints = ["the complement of a mask is ~mask; as numbers: mask.to(x.dtype)"]
        hints.append("to choose by a mask, torch.where(mask, a, b) keeps NaN and inf of the other side out")
        yield RULE.finding(
            subject,
            at=death.where(subject),
            message=f"{death.expression}: "
            + (f"{listed(masks)} is bool" if len(masks) == 1 else f"{listed(masks) or death.caught('which')}: bool"),
            why="A comparison gives a bool tensor, which has no subtraction.",
            hints=hints,
            evidence=[death.fact.id],
        )
