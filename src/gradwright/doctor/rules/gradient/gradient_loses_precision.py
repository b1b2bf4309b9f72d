"""What it finds
    A Function whose gradient is right in float64 and far off in float32, bfloat16 or float16: further than the error
    that plain autograd of the same forward makes in that dtype, at the same rounded inputs.

Why it matters
    Mixed precision runs it in exactly that dtype. Sums kept in float16, exponentials that overflow and differences of
    nearly equal numbers cost the digits that small gradients consist of.

When it is fine
    Where the input is never of that dtype (`custom_fwd(cast_inputs=torch.float32)` sees to it).

The fix
    Compute in float32 inside the backward, keep sums in float32, use the stable form (logsumexp, expm1, log1p).

References
    pytorch/pytorch#87979; the way that bf16 and Triton kernels are judged in linkedin/Liger-Kernel.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.flaws import told
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import Flaw
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW104", "gradient-loses-precision", "error", needs=(Flaw,))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    yield from told(RULE, subject, facts)
