"""What it finds
    A Function whose gradient is right for a contiguous cotangent (or input) and wrong, or an exception, for the same
    values in another layout: transposed, expanded with stride 0, sliced out of a larger tensor.

Why it matters
    The engine hands on whatever the next operation made: `.sum()` gives an expanded cotangent, `.t()` a transposed one.
    Whether it fails depends on code that is nowhere near the Function.

When it is fine
    A forward that refuses other layouts with an exception is no finding.

The fix
    `reshape` for `view`, `grad_output.contiguous()` before a kernel or `as_strided`, strides handed on to the kernel.

References
    pytorch/pytorch#194719, Dao-AILab/flash-attention#355, open-mmlab/mmcv#737, cornellius-gp/gpytorch#1543.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.flaws import told
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import Flaw
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW209", "gradient-depends-on-layout", "error", needs=(Flaw,), causes=("GW202",))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    yield from told(RULE, subject, facts)
