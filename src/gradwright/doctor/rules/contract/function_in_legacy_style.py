"""What it finds
    A custom Function in the old style, with `forward` as a method of an object that is called: "Legacy autograd
    function with non-static forward method is deprecated".

Why it matters
    Such an object kept state of one call for the next. Torch removed the style; calling the object raises.

When it is fine
    Never: the call raises.

The fix
    Make `forward` and `backward` static methods that take `ctx` first, keep on `ctx` what was kept on `self`
    (`ctx.save_for_backward` for tensors), pass what the constructor took as inputs of the forward (and return
    `None` for each of them), and call `MyFunction.apply(x, ...)`.

References
    "Extending PyTorch" in the PyTorch documentation.
"""

import dataclasses
from collections.abc import Iterator

from gradwright.doctor.rules.deaths import deaths
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import ScriptDied
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule(
    "GW207",
    "function-in-legacy-style",
    "error",
    needs=(ScriptDied,),
    messages=(r"Legacy autograd function with non-static forward method is deprecated",),
)


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for death in deaths(RULE, facts):
        function = death.clue("function")
        yield RULE.finding(
            dataclasses.replace(subject, name=function or subject.name),
            at=death.where(subject),
            message=f"{death.expression} calls {'an object of ' + function if function else 'a Function object'}; "
            "torch only knows Function.apply",
            why="Objects of a Function held the state of one call; now forward and backward are static and "
            "state lives on ctx.",
            hints=[
                "write forward(ctx, ...) and backward(ctx, grad_output) as static methods; keep tensors with ctx",
                f"call {function or 'MyFunction'}.apply(...); what the constructor took becomes an input",
            ],
            evidence=[death.fact.id],
        )
