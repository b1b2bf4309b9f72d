"""What it finds
    A Python loop, in a Function's forward or backward, a plain function, a method or the script's body, that dispatches
    operations on single elements: at least 32 iterations, and at least 5 % of the watched time.

Why it matters
    Each operation on one element costs microseconds of dispatch for a nanosecond of arithmetic. A 1000 x 1000 square
    takes over ten seconds as two nested loops and milliseconds as one expression.

When it is fine
    When the loop is short, or takes no time that anybody waits for: then it is not reported. Where an iteration needs
    the result of an earlier one (a recurrence), array code does not apply as it stands, and the finding says so.

The fix
    One expression over whole tensors. Where a rewrite was tried and held on every trial, it is shown as a diff with
    the times before and after.

References
    pytorch/pytorch#6848.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.element_loops import is_slow
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import LoopShape, OpsPerLine
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule(
    "GW301", "python-loop-over-elements", "warning", needs=(OpsPerLine, LoopShape), rewrite="compile_loop"
)  # fmt: skip


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for loop in facts.of(LoopShape):
        if not is_slow(loop) or (subject.kind == "loop" and _is_told_of_a_function(loop, facts)):
            continue
        costs = next((costs for costs in facts.of(OpsPerLine) if costs.phase == loop.phase), None)
        yield RULE.finding(
            subject,
            at=loop.hot,
            message=f"{_owner(subject, loop)} is a Python loop over elements: {_count(loop)} "
            f"operations, {loop.share_of_step * 100:.0f} % of the step",
            why=_why(loop, costs),
            hints=_hints(loop),
            evidence=[loop.id, *([costs.id] if costs else [])],
        )


def _count(loop: LoopShape) -> str:
    if not loop.extrapolated:
        return f"{loop.full_operations:,}"
    two_digits = int(float(f"{loop.full_operations:.2g}"))  # more were not measured
    return f"more than {loop.operations:,}" if _was_cut(loop) else f"about {two_digits:,}"


def _was_cut(loop: LoopShape) -> bool:
    """Whether the counting ended before the loop did: what was counted is only a part."""
    return loop.extrapolated and loop.full_operations == loop.operations


def _is_told_of_a_function(loop: LoopShape, facts: Facts) -> bool:
    """A helper's loop that a Function's forward or backward runs is told with the Function."""
    others = (other for other in facts.all(LoopShape) if other.subject != loop.subject)
    return any(other.location == loop.location and is_slow(other) for other in others)


def _owner(subject: Subject, loop: LoopShape) -> str:
    return f"{subject.name}.{loop.phase}" if subject.kind == "function" else f"the loop in {subject.name}"


def _why(loop: LoopShape, costs: OpsPerLine | None) -> str:
    iterations = f"{'The first ' if _was_cut(loop) else ''}{loop.iterations:,} iterations"
    text = (
        f"{iterations} dispatched {loop.operations:,} operations: {loop.scalar_operations:,} on a single element"
        f"{_selections(loop)} (tried on {loop.tried_on}); a call took {_seconds(loop.seconds)}."
    )
    if costs is not None and costs.minimum_bytes:
        text += f" It moves {costs.bytes / costs.minimum_bytes:.1f} times the bytes it must."
    return text


def _selections(loop: LoopShape) -> str:
    return f", {loop.views:,} selections" if loop.views else ""


def _hints(loop: LoopShape) -> list[str]:
    if loop.carried:
        return [
            f"{loop.carried}, so that it can't be written as one array expression as it stands",
            "look for a closed form (cumsum, cumprod, a scan), or vectorise the dimensions that carry nothing",
        ]
    return [
        "write it as one expression over whole tensors: broadcasting, torch.where for branches, sum for accumulators"
    ]


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value >= 1 else f"{value * 1e3:.3g} ms"
