"""What it finds
    An in-place operation on a leaf that requires a gradient, or on a view of one: "a leaf Variable that requires
    grad is being used in an in-place operation".

Why it matters
    A leaf is where gradients arrive. Were it changed in place with gradients on, it would no longer be a leaf, and
    its old value, with respect to which the gradient is asked, would be gone.

When it is fine
    An update or an initialisation of a parameter is meant to be outside the graph: put it under `torch.no_grad()`.

The fix
    Updating or initialising: `with torch.no_grad(): w -= lr * w.grad`. Computing with it: out of place, `y = w +
    1`, or on a copy, `y = w.clone()` and then `y[0] = 0`.

References
    "Autograd mechanics" in the PyTorch documentation: in-place operations with autograd.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.deaths import deaths
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import ScriptDied
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule(
    "GW615",
    "leaf-modified-in-place",
    "error",
    needs=(ScriptDied,),
    messages=(
        r"a (?P<view>view of a )?leaf Variable that requires grad (?:is being|has been) used in an in-place operation",
    ),
)


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for death in deaths(RULE, facts):
        base = death.clue("base") or "a leaf"
        kind = "a parameter" if death.clue("parameter") else "a leaf that requires a gradient"
        shape = f", shape {death.clue('shape')}" if death.clue("shape") else ""
        name = base if base.isidentifier() else "w"
        yield RULE.finding(
            subject,
            at=death.where(subject),
            message=f"{death.expression}: {base} ({kind}{shape}) is changed in place"
            + (" through a view" if death.caught("view") else ""),
            why="The gradient is asked with respect to the value that the operation would overwrite.",
            hints=[
                f"an update or an initialisation: with torch.no_grad(): {death.clue('expression') or '...'}",
                f"a computation: out of place, or on a copy: y = {name}.clone(), then change y",
            ],
            evidence=[death.fact.id],
        )
