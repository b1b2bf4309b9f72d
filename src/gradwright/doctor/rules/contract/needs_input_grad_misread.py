"""What it finds
    A backward that goes by `ctx.needs_input_grad` and reads it wrongly: with only some inputs asking for a gradient,
    one of them gets none, a wrong one or an exception.

Why it matters
    It shows when a layer is frozen, long after the Function was written and tested.

When it is fine
    Never.

The fix
    `ctx.needs_input_grad[i]` belongs to the i-th argument of `apply`, tensors or not; don't save conditionally on it.

References
    unslothai/unsloth#832, rtqichen/torchdiffeq#104.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.flaws import told
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import Flaw
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW210", "needs-input-grad-misread", "error", needs=(Flaw,))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    yield from told(RULE, subject, facts)
