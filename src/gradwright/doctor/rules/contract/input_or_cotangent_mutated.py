"""What it finds
    A Function whose forward writes into an input without `ctx.mark_dirty`, or whose backward writes into the cotangent
    or into a saved tensor. Values are compared, so that writes through `.data` are seen, which version counters miss.

Why it matters
    The cotangent may be shared: other branches of the graph read the same memory, and get what was left in it. An
    undeclared change of an input makes the gradients of everything that saved this input wrong, without an error.

When it is fine
    An in-place forward that declares its input with `ctx.mark_dirty(x)` and returns it.

The fix
    Work on a copy (`grad_output.clone()`), use the out-of-place operation, or declare the input dirty.

References
    The notes on `ctx.mark_dirty` in "Extending PyTorch"; linkedin/Liger-Kernel#254, #343.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import FunctionCalls, Mutated
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW202", "input-or-cotangent-mutated", "error", needs=(Mutated,))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    places = next(iter(facts.of(FunctionCalls)), None)
    seen = set()
    for change in facts.of(Mutated):
        if change.declared or (change.phase, change.what, change.name) in seen:
            continue
        seen.add((change.phase, change.what, change.name))
        at = places and (places.backward_at if change.phase == "backward" else places.forward_at)
        copy = f"work on a copy: {change.name}.clone()" if change.what != "input" else (
            f"work on a copy, or declare it: ctx.mark_dirty({change.name}) and return it")  # fmt: skip
        yield RULE.finding(
            subject,
            at=at or subject.location,
            message=f"{subject.name}.{change.phase} changes its {change.what} {change.name} in place",
            why=f"The values of {change.name} differed before and after the call; whoever else reads this memory gets "
            "what was left in it, and no error tells.",
            hints=[copy],
            evidence=[change.id],
            # An installed package that does this has its reasons, and is not the user's to mend.
            severity="info" if subject.origin == "library" else None,
        )
