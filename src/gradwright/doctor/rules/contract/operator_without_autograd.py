"""What it finds
    An operator made with `torch.library` that was differentiated and has no formula for it: "Trying to backward through
    mylib::f.default but no autograd formula was registered", "an autograd kernel was not registered". Or one that met
    a transform of `torch.func` (`grad`, `vjp`, `jacrev`), which asks it for a `setup_context` that it can't have. Or
    one that was called in forward mode, and dropped the tangents that it was given.

Why it matters
    To autograd such an operator is a closed box. Forward mode does not even raise: `torch.func.jvp`, `jacfwd` and
    `hessian` take its derivative for zero, without a word.

When it is fine
    An operator that is only evaluated needs no formula; call it under `torch.no_grad()`.

The fix
    `f.register_autograd(backward, setup_context=setup_context)` beside its definition, for `backward()` and
    `autograd.grad`. Under `torch.func` use a `torch.autograd.Function` with `setup_context` (and `jvp`) in its place.

References
    torch.library.register_autograd in the PyTorch documentation; "PyTorch custom operators".
"""

import re
from collections.abc import Iterator

from gradwright.doctor.rules.deaths import Death
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import ScriptDied, TangentDropped
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule(
    "GW217",
    "operator-without-autograd",
    "error",
    needs=(ScriptDied, TangentDropped),
    messages=(
        r"Trying to backward through (?P<operator>[\w.:]+) but no autograd formula was registered",
        r"(?P<operator>[\w.:]+): an autograd kernel was not registered to the Autograd key",
    ),
)


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for dropped in facts.of(TangentDropped):
        yield RULE.finding(
            subject,
            at=dropped.location,
            message=f"forward mode takes the derivative of {dropped.operator} for zero",
            why="An operator of torch.library has no formula for forward mode: it was given tangents and returned "
            f"none, in {dropped.times} call{'s' * (dropped.times != 1)}. Nothing raises.",
            hints=[
                "write it as a torch.autograd.Function with a jvp",
                "or go backward: torch.func.vjp, jacrev on that",
            ],
            evidence=[dropped.id],
            severity="warning",
        )
    for fact in facts.of(ScriptDied):
        match = RULE.match(fact.message) or re.search("setup_context", fact.message)
        death = Death(fact, match) if match is not None else None
        operator = death and (death.clue("operator") or death.caught("operator"))
        if death is None or not operator:
            continue  # GW208 explains what torch says of setup_context where a Function of the user's met it
        at = death.where(subject)
        raised = f" It came to light at {fact.location}." if fact.location not in (None, at) else ""
        under_func = RULE.match(fact.message) is None
        yield RULE.finding(
            subject,
            at=at,
            message=f"{death.expression} differentiates {operator} under torch.func, which no custom operator can do"
            if under_func
            else f"{death.expression} goes through {operator}, which has no autograd formula",
            why="Autograd can't look into an operator of torch.library: what it was not told it does not know."
            + raised,
            hints=_hints(death, under_func),
            evidence=[fact.id],
        )


def _hints(death: Death, under_func: bool) -> Iterator[str]:
    name = death.clue("defined_as") or "f"
    if under_func:
        yield "write it as a torch.autograd.Function with forward(x, ...) and setup_context(ctx, inputs, output)"
        yield "or differentiate with torch.autograd.grad, which asks for its registered formula" + (
            "" if death.clue("formula") else f" ({name}.register_autograd(...): it has none yet)"
        )
    else:
        yield f"say how: {name}.register_autograd(backward, setup_context=setup_context)"
    yield "beware of torch.func.jvp, jacfwd and hessian: through an operator they give zero without a word"
