"""What it finds
    Gradients that are accumulated with `DistributedDataParallel` while more than the last forward of each step runs
    with synchronisation: outside of `no_sync`, or with the backward alone inside of it.

Why it matters
    Every backward then averages all gradients over all processes, though only the sum of the last is used: as many
    times the communication as there are micro-batches. The values are the same, the time is not.

When it is fine
    With one process nothing is sent: then it is information, for the run that has more. Models that are called several
    times for one backward are not reported.

The fix
    `with model.no_sync():` around forward and backward of all micro-batches but the last: the forward decides.

References
    The documentation of `torch.nn.parallel.DistributedDataParallel.no_sync`.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import SynchronisedForwards
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW607", "ddp-forward-outside-no-sync", "warning", needs=(SynchronisedForwards,))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for seen in facts.of(SynchronisedForwards):
        if seen.synchronised_windows < max(2, 0.8 * seen.accumulated_windows):
            continue
        inside = (
            " Their backwards run inside of no_sync, which is too late: the forward decides." * seen.backward_inside
        )
        processes = "this one process" if seen.world_size == 1 else f"all {seen.world_size} processes"
        yield RULE.finding(
            subject,
            at=seen.location,
            message=f"gradients are synchronised for each of {seen.micro_batches} micro-batches, not once per step",
            why=f"{seen.synchronised_forwards} of {seen.forwards} forwards ran with synchronisation, so each backward "
            f"averages the gradients over {processes}: at {seen.synchronised_windows} of {seen.accumulated_windows} "
            f"steps that accumulate.{inside}",
            hints=["run forward and backward of all micro-batches but the last inside of `with model.no_sync():`"],
            evidence=[seen.id],
            severity="warning" if seen.world_size > 1 else "info",
        )
