"""What it finds
    A backward that fails, or gives another gradient, where only some of its outputs are used and the others' cotangents
    are undefined: `None` after `ctx.set_materialize_grads(False)`.

Why it matters
    It shows when somebody uses only the first of the outputs.

When it is fine
    Never.

The fix
    Test each cotangent for `None`, or leave `set_materialize_grads` alone, so that zeros arrive.

References
    "Extending PyTorch", on `set_materialize_grads`.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.flaws import told
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import Flaw
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW211", "undefined-cotangent-mishandled", "error", needs=(Flaw,))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    yield from told(RULE, subject, facts)
