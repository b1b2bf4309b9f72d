"""What it finds
    A backward that returns a gradient of another dtype, or on another device, than the input it belongs to.

Why it matters
    The engine casts it without a word: a float64 gradient of a float32 input costs twice the memory and time, a lower
    one has lost its digits, and a copy between devices waits for both.

When it is fine
    Never; `grad.to(x.dtype)` says it where it is meant.

The fix
    Return the input's dtype and device: `.to(x.dtype)`, constants with `dtype=x.dtype, device=x.device`.

References
    torch/csrc/autograd/engine.cpp, `validate_outputs`.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.flaws import told
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import Flaw
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW212", "gradient-of-wrong-dtype", "warning", needs=(Flaw,), causes=("GW216",))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    yield from told(RULE, subject, facts)
