"""What it finds
    A scheduler of the learning rate that moves on with each micro-batch while several of them add up to one optimizer
    step; or that moves on before the optimizer's first step, in a loop that has the two in the wrong order.

Why it matters
    The schedule runs as many times faster as micro-batches are accumulated: warm-up is over too soon, and the rate has
    fallen to its end with most of the training still to come. In the wrong order its first value is never used.

When it is fine
    Moving on once per optimizer step or once per epoch, whatever the schedule counts, is not reported; neither is a
    schedule that is told its epoch, that is wound forward before the training goes on, or that moves on after a step
    which a `GradScaler` left out. If the schedule's length was counted in micro-batches, the finding can be ignored.

The fix
    `scheduler.step()` right after `optimizer.step()`, under the same condition.

References
    The documentation of `torch.optim`, How to adjust learning rate. Torch's own warning: "Detected call of
    `lr_scheduler.step()` before `optimizer.step()`".
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import SchedulerOrder
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW606", "scheduler-per-micro-batch", "warning", needs=(SchedulerOrder,))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for schedule in facts.of(SchedulerOrder):
        often = schedule.calls > 1.5 * schedule.optimizer_steps
        if often and schedule.crowded_windows >= max(2, 0.8 * schedule.accumulated_windows):
            yield RULE.finding(
                subject,
                at=schedule.location,
                message=f"{schedule.scheduler} moves on with each micro-batch: {schedule.calls} times in "
                f"{schedule.optimizer_steps} steps of {subject.name}",
                why=f"Up to {schedule.micro_batches} micro-batches add up to one step, and the schedule moved on with "
                f"each of them at {schedule.crowded_windows} of {schedule.accumulated_windows} steps that accumulate.",
                hints=["call scheduler.step() right after optimizer.step(), under the same condition"],
                evidence=[schedule.id],
            )
        elif schedule.before_first:
            yield RULE.finding(
                subject,
                at=schedule.location,
                message=f"{schedule.scheduler} moves on before the first step of {subject.name}",
                why="The first value of the schedule is never used, and each later one comes a round too early: torch "
                "warns of it, too.",
                hints=["call optimizer.step() first, and scheduler.step() after it"],
                evidence=[schedule.id],
            )
