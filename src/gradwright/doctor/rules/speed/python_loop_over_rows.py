"""What it finds
    A Python loop over the rows, samples or classes of a tensor for which array code was found that does the same and
    takes at most two thirds of the time: at least 8 iterations, at least 5 % of the watched time.

    And one for which none was found, whose rounds the graph of a backward shows to be alike: 16 rows and more, each
    with the same operations on the same shapes, made one after the other from the same tensors, none used by another.
    One at a time they have to take a quarter of a step's work more than all at once, as tried on this machine.

Why it matters
    Each iteration dispatches the operations of one row. Over a batch that is as many times the same Python and the same
    dispatch; one call over the whole batch does it once, and the kernels get something to chew on.

When it is fine
    When the rows differ in shape, or the body does something of its own for each (a data-dependent branch, random
    numbers): such loops are not reported, because the rewrite was tried and did not hold. A recurrence is reported
    where it stands in a Function's forward or backward and was compiled. Steps of a recurrence, of an environment or of
    a sampler, rounds with parameters of their own, and batch normalisation of one row are no rows that are alike.

The fix
    The diff that is shown: the loop was run against it on the inputs of the run and on their neighbours. Where none is
    shown: call what takes one row on all of them, or map it by `torch.func.vmap`.

References
    harveyslash/PyTorch_Speaker_Verification#33 (20.3 ms to 398 us); kornia/kornia#2884.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.costs import duration
from gradwright.doctor.rules.graph_costs import row_loops, share_of_step
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import ArrayTwin, CostlyGraph, LoopShape, LoopsTreated
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule(
    "GW304",
    "python-loop-over-rows",
    "warning",
    needs=(ArrayTwin, CostlyGraph, LoopShape, LoopsTreated),
    rewrite="compile_loop",
)


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for twin in facts.of(ArrayTwin):
        iterations = f"{twin.iterations:,} iterations, " if twin.iterations else ""
        yield RULE.finding(
            subject,
            at=twin.location,
            message=f"the loop in {subject.name} goes row by row: {iterations}{twin.share_of_step * 100:.0f} % of the "
            f"step, {twin.before_seconds / twin.after_seconds:.1f} times as long as "
            f"{'the same loop, compiled' if twin.carried else 'array code'}",
            why=_why(twin),
            hints=[_hint(twin)],
            evidence=[twin.id],
        )
    for cost, treated in row_loops(facts):
        yield RULE.finding(
            subject,
            at=cost.loop or subject.location,
            message=f"the loop goes row by row: {cost.count} rounds of the same {cost.operations} operations",
            why=f"The graph has a part for each round: the same operations on the same shapes, the largest "
            f"{list(cost.other)}, from the same tensors, and none uses another. One at a time they take about "
            f"{duration(cost.seconds)} more than all at once, {share_of_step(cost)} (tried on this machine; found at "
            f"{cost.looks} steps, from step {cost.first} on).",
            hints=[
                "call it once, on all rows: most operations take a batch along the first axis; pairs by unsqueeze",
                "or map the function of one row over all of them: torch.func.vmap",
            ],
            evidence=[cost.id, treated.id],
        )


def _hint(twin: ArrayTwin) -> str:
    if twin.carried:
        return f"compile it, as no graph is recorded here: {twin.carried}, so that all rows can't be taken at once"
    return "take all rows at once: the operations of one row have a batched form"


def _why(twin: ArrayTwin) -> str:
    if not twin.operations:
        return "Each of its iterations calls the same functions on one row."
    operations = f"{twin.operations:,} operations, the same few for each row"
    return f"Its iterations dispatched {operations} (tried on {twin.tried_on})."
