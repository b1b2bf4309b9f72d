"""What it finds
    A custom Function under a transform of `torch.func` (`grad`, `vjp`, `jvp`, `jacrev`, `vmap` ...) or in forward mode
    that lacks what these ask of it: "it must override the setup_context staticmethod", "it does not have vmap
    support", or "You must implement the jvp function".

Why it matters
    The transforms need the computation apart from what is saved for the backward, and `vmap` needs to be told how
    the Function treats a batch. A forward that takes `ctx` does both at once. Forward mode (`jvp`, `jacfwd`,
    `hessian`) never asks the backward: it needs the derivative in the other direction.

When it is fine
    Outside `torch.func`: with `backward()` and `autograd.grad` a combined forward is right and a little faster.

The fix
    Split it: `forward(x, ...)` without `ctx`, and `setup_context(ctx, inputs, output)` that saves. For `vmap`, set
    `generate_vmap_rule = True` (if forward and backward are made of torch operations), or write a `vmap` static
    method. For forward mode write `jvp(ctx, *tangents)`, with `ctx.save_for_forward` beside `save_for_backward`; or
    go backward: `jacrev` for `jacfwd`.

References
    "Extending torch.func with autograd.Function" in the PyTorch documentation.
"""

import dataclasses
from collections.abc import Iterator

from gradwright.doctor.rules.deaths import Death, deaths
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
        r"You must implement (?P<ahead>the jvp function) for custom autograd\.Function",
    ),
)


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for death in deaths(RULE, facts):
        if death.clue("operator"):
            continue  # a class of torch's own behind an operator of the user's: GW217
        function = death.clue("function") or death.caught("vmapped")
        lacks, why, hints = _lack(death, function or "the Function")
        yield RULE.finding(
            dataclasses.replace(subject, name=function or subject.name),
            at=death.where(subject),
            message=f"{death.expression} runs {lacks}",
            why=why,
            hints=hints,
            evidence=[death.fact.id],
        )


def _lack(death: Death, function: str) -> tuple[str, str, list[str]]:
    """What the Function lacks, why that is asked for, what to do."""
    if vmapped := death.caught("vmapped"):
        return (
            f"under a torch.func transform, and {vmapped} says nothing about vmap",
            "vmap has to know how the Function treats a batch.",
            ["set generate_vmap_rule = True if both directions are made of torch operations; else write vmap(...)"],
        )
    if death.caught("ahead"):
        return (
            f"in forward mode, and {function} has no jvp",
            "Forward mode carries tangents along with the values; a backward says nothing about them.",
            [
                "write jvp(ctx, *tangents), and keep what it needs with ctx.save_for_forward",
                "or differentiate backward: torch.func.vjp for jvp, jacrev for jacfwd",
            ],
        )
    return (
        f"under a torch.func transform, and {function} has no setup_context",
        "torch.func needs the computation apart from what is saved for the backward.",
        ["split it: forward(x, ...) without ctx, and setup_context(ctx, inputs, output) that saves"],
    )
