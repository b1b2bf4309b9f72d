"""What it finds
    A tensor that a forward saves and its backward never looks at, or of which it only asks the shape, dtype or device;
    at least 64 KiB of it, and a tenth of what is saved.

Why it matters
    What is saved stays in memory from the forward to the backward, for every layer of the net at once.

When it is fine
    Where the tensor lives on anyway (a parameter), saving it costs nothing; it is misleading all the same.

The fix
    Don't save it; of a shape, `ctx.x_shape = x.shape` is enough.

References
    "How to use save_for_backward" in PyTorch's note on extending autograd.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import SavedNotNeeded
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW403", "saved-tensor-not-needed", "info", needs=(SavedNotNeeded,), rewrite="drop_saved")

_LEAST = 1 << 16
_LARGE = 1 << 20
_SHARE = 0.1


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    found = [one for one in facts.of(SavedNotNeeded) if one.bytes >= _LEAST and one.share >= _SHARE]
    if not found or subject.origin == "library":
        return
    size = sum(one.bytes for one in found)
    names = " and ".join(one.name for one in found)
    only = all(one.use == "shape" for one in found)
    yield RULE.finding(
        subject,
        at=found[0].location,
        message=f"{subject.name} saves {names}, {'of which' if only else 'and'} its backward needs "
        f"{'the shape alone' if only else 'none of it'}: {size:,} bytes a call",
        why=f"{sum(one.share for one in found) * 100:.0f} % of the bytes it saves are kept from the forward to the "
        f"backward for nothing ({found[0].tried_on}).",
        hints=["keep the shape on ctx: ctx.shape = x.shape" if only else "leave it out of ctx.save_for_backward"],
        evidence=[one.id for one in found],
        severity="warning" if size >= _LARGE and any(one.role == "intermediate" for one in found) else None,
    )
