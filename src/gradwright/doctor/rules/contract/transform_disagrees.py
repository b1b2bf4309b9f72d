"""What it finds
    A Function that gives another gradient under `torch.func.vjp`, `vmap`, forward mode or `torch.compile` than in eager
    mode. One that refuses with an exception is honest.

Why it matters
    Per-sample gradients, Jacobians and compiled models are then silently wrong.

When it is fine
    Never.

The fix
    Mend `vmap` (its `in_dims` may be anything), `jvp`, or what `setup_context` keeps; or leave them out.

References
    pytorch/pytorch#193279, #180642.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.flaws import told
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import Flaw
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW214", "transform-disagrees", "error", needs=(Flaw,))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    yield from told(RULE, subject, facts)
