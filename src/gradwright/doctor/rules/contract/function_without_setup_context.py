"""What it finds
    A custom Function under a transform of `torch.func` (`grad`, `vjp`, `jvp`, `jacrev`, `vmap` ...) that lacks what
    the transforms ask of it: "it must override the setup_context staticmethod", or "it does not have vmap support".

Why it matters
    The transforms need the computation apart from what is saved for the backward, and `vmap` needs to be told how
    the Function treats a batch. A forward that takes `ctx` does both at once.

When it is fine
    Outside `torch.func`: with `backward()` and `autograd.grad` a combined forward is right and a little faster.

The fix
    Split it: `forward(x, ...)` without `ctx`, and `setup_context(ctx, inputs, output)` that saves. For `vmap`, set
    `generate_vmap_rule = True` (if forward and backward are made of torch operations), or write a `vmap` static
    method.

References
    "Extending torch.func with autograd.Function" in the PyTorch documentation.
"""

import dataclasses
from collections.abc import Iterator

from gradwright.doctor.rules.deaths import deaths
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import ScriptDied
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule(
    "GW208",
    "function-without-setup-context",
    "error",
    needs=(ScriptDied,),
    messages=(
        r"In order to use an autograd\.Function with functorch transforms .*override the setup_context",
        r"You tried to vmap over (?P<vmapped>\w+), but it does not have vmap support",
    ),
)


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for death in deaths(RULE, facts):
        vmapped = death.caught("vmapped")
        function = death.clue("function") or vmapped
        yield RULE.finding(
            dataclasses.replace(subject, name=function or subject.name),
            at=death.where(subject),
            message=f"{death.expression} runs under a torch.func transform, "
            + (
                f"and {vmapped} says nothing about vmap"
                if vmapped
                else f"and {function or 'the Function'} has no setup_context"
            ),
            why="vmap has to know how the Function treats a batch."
            if vmapped
            else "torch.func needs the computation apart from what is saved for the backward.",
            hints=[
                "set generate_vmap_rule = True if both directions are made of torch operations; else write vmap(...)"
            ]
            if vmapped
            else ["split it: forward(x, ...) without ctx, and setup_context(ctx, inputs, output) that saves"],
            evidence=[death.fact.id],
        )
