"""What it finds
    A Function whose graph stays alive after its outputs are gone: an output kept as an attribute of `ctx` (a cycle,
    which is freed when the garbage collector comes by, and never where it can't see into C++), or tensors that a list
    on the class collects.

Why it matters
    Memory grows with every step until the machine has none.

When it is fine
    A cache that is bounded and cleared.

The fix
    `ctx.save_for_backward(out)`, which knows about outputs; never `ctx.out = out`, never a list outside `ctx`.

References
    pytorch/pytorch#5569, #25340.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.flaws import told
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import Flaw
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW213", "graph-leaked", "warning", needs=(Flaw,))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    yield from told(RULE, subject, facts)
