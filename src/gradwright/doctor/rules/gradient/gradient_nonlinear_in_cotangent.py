"""What it finds
    A backward that is not linear in its cotangent: it clips it, takes its absolute value, squares it, normalises it, or
    returns something where the cotangent is zero.

Why it matters
    A vjp is a linear map. Another scale of the loss (a mean for a sum, a loss scaler, accumulation) gives another
    direction, and the gradient of a sum of two losses is no longer the sum of their gradients.

When it is fine
    Clipping on purpose: say so, `@gw.surrogate(reason="clips the gradient")`.

The fix
    Multiply by the cotangent, once; clip in the training loop, after the whole gradient is known.

References
    The definition of a vjp; gradcheck's cotangents are never negative, so it passes `g.abs()`.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.flaws import told
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import Flaw
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW105", "gradient-nonlinear-in-cotangent", "error", needs=(Flaw,))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    yield from told(RULE, subject, facts)
