"""What it finds
    A Function whose forward runs and whose backward raises an exception at the very same inputs, with an ordinary
    cotangent. `NotImplementedError` and torch's own "not implemented" are honest.

Why it matters
    It shows when somebody first trains through it.

When it is fine
    When it is never differentiated; then mark its outputs with `ctx.mark_non_differentiable`.

The fix
    Mend the line that raises, or say that there is no gradient: raise NotImplementedError.

References
    "Extending PyTorch", on `backward`.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.flaws import told
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import Flaw
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW215", "backward-raises", "error", needs=(Flaw,), causes=("GW201", "GW203", "GW206", "GW216"))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    yield from told(RULE, subject, facts)
