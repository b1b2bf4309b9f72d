"""What it finds
    A forward that keeps one of its inputs or outputs as an attribute of `ctx`, not by `ctx.save_for_backward`.

Why it matters
    What is saved properly is checked for changes in place, offered to `saved_tensors_hooks` (offloading, checkpointing)
    and freed with the graph. An attribute is none of that: a change in place goes unnoticed and gives a wrong gradient,
    memory tools don't see it, and an output kept so is a cycle that no backward frees.

When it is fine
    For values that are neither input nor output: PyTorch lets these be kept either way.

The fix
    `ctx.save_for_backward(x)` in the forward, `(x,) = ctx.saved_tensors` in the backward.

References
    "How to use save_for_backward" in PyTorch's note on extending autograd; pytorch/pytorch#5569, #25340.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import TensorOnContext
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW402", "tensor-kept-on-ctx", "info", needs=(TensorOnContext,), rewrite="save_for_backward")

_LARGE = 1 << 20


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    found = sorted(facts.of(TensorOnContext), key=lambda one: one.location.line)
    if not found or subject.origin == "library":
        return
    size = sum(one.bytes for one in found)
    kept = " and ".join(f"ctx.{one.attribute} (an {one.role})" for one in found)
    yield RULE.finding(
        subject,
        at=found[0].location,
        message=f"{subject.name} keeps {kept} without ctx.save_for_backward",
        why=f"{size:,} bytes ({found[0].tried_on}) are neither checked for changes in place nor seen by "
        "saved_tensors_hooks, and stay until ctx is gone.",
        hints=["save them with ctx.save_for_backward(...), and unpack ctx.saved_tensors in the backward"],
        evidence=[one.id for one in found],
        severity="warning" if size >= _LARGE else None,
    )
