"""What it finds
    Training steps in eval mode: `eval()` was called for a validation in the middle of the training, and no `train()`
    after it. And the other way round: a run without gradients after the last step, of a model that is still in train
    mode; a model that only answers (a teacher, a reward) in the steps of another one, in train mode. Only of models
    with dropout or batch normalisation, to which the mode makes a difference. And dropout that is called as a function
    in a model which is in eval mode: `F.dropout(x, p)` drops unless it is told `training=False`.

Why it matters
    In eval mode dropout drops nothing and batch normalisation uses averages that it no longer updates: the training
    goes on without the regularisation that it was given. In train mode an evaluation drops activations at random,
    normalises by the batch that it happens to get, and moves the averages towards the validation data.

When it is fine
    Batch normalisation that is frozen from the start, or by itself, is not reported; neither are samples of a generator
    or pseudo-labels in the middle of a step, averages that are taken anew after `train()`, and several passes of one
    input (dropout as samples). A model that answers is not reported if it moves, is a part or a copy of what learns, or
    `train()` was said of it in this phase; dropout as a function is not if its call speaks of the mode.

The fix
    `model.train()` at the start of each epoch of training, `model.eval()` at the start of each evaluation, and once
    for a model that only answers. `F.dropout(x, p, training=self.training)`, or `nn.Dropout`, which follows the mode.

References
    The documentation of torch.nn.Module.train and eval.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import ModeLeft
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW625", "mode-left-wrong", "warning", needs=(ModeLeft,))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for mode in facts.of(ModeLeft):
        parts = " and ".join(mode.parts)
        if mode.wrong == "evaluation":
            yield RULE.finding(
                subject,
                at=mode.location or subject.location,
                message=f"{mode.module} is run without gradients after training, and is still in train mode",
                why=f"It has {parts}, in train mode in this block, after all {mode.steps_before} steps; eval() was "
                "never called in this run.",
                hints=["call eval() before an evaluation, and train() before the next epoch"],
                evidence=[mode.id],
            )
        elif mode.wrong == "teacher":
            yield _of_teacher(subject, mode)
        elif mode.wrong == "function":
            yield _of_function(subject, mode)
        elif mode.steps_after >= 2:
            yield RULE.finding(
                subject,
                at=mode.location or subject.location,
                message=f"{mode.module} is put into eval mode in the middle of the training, and stays in it",
                why=f"After this eval(), {mode.steps_after} steps were taken with its {parts} in eval mode; "
                f"{mode.steps_before} were taken in train mode before.",
                hints=["call train() again after an evaluation: at the start of each epoch"],
                evidence=[mode.id],
                severity="error" if mode.switches > 1 else None,
            )


def _of_teacher(subject: Subject, mode: ModeLeft) -> Finding:
    parts = " and ".join(mode.parts)
    drops = any("Dropout" in part for part in mode.parts)
    return RULE.finding(
        subject,
        at=mode.location or subject.location,
        message=f"{mode.module} only answers here, and does so in train mode",
        why=f"It has {parts}, in train mode at each of {mode.steps_before} steps of {subject.name} that were looked "
        f"at, up to step {mode.steps_after}. {subject.name} holds none of its parameters, they did not move, and "
        "nobody said train() in this phase: "
        + ("its answers are drawn at random." if drops else "it normalises by the batch that it happens to get."),
        hints=["call eval() on it, once, before this loop"],
        evidence=[mode.id],
        severity=None if drops else "info",
    )


def _of_function(subject: Subject, mode: ModeLeft) -> Finding:
    called = mode.parts[0]
    attention = called.endswith("attention")
    return RULE.finding(
        subject,
        at=mode.location or subject.location,
        message=f"{called} drops values in evaluation as well: it does not know the mode",
        why=f"{mode.module} was in eval mode when this call dropped values.",
        hints=[
            "dropout_p=self.p if self.training else 0.0" if attention else "pass training=self.training",
            *([] if attention else ["or make it a module: nn.Dropout follows train() and eval()"]),
        ],
        evidence=[mode.id],
    )
