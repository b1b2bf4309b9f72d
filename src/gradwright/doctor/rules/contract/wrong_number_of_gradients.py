"""What it finds
    A custom Function whose backward returns more or fewer gradients than its forward takes inputs: "function
    MulBackward returned an incorrect number of gradients (expected 2, got 1)".

Why it matters
    Gradients are matched to inputs by position. One too few, and every one after the gap would go to the wrong
    input; torch refuses. (Of too many, `None` at the end is forgiven.)

When it is fine
    Never: the first backward raises.

The fix
    Return one value per input of the forward, `ctx` not counted, in the same order: the gradient where the input
    has one, `None` for numbers, flags and indices. Return a tuple: a list counts as one gradient.

References
    "Extending PyTorch" in the PyTorch documentation: how to use `torch.autograd.Function`.
"""

import dataclasses
from collections.abc import Iterator

from gradwright.doctor.rules.deaths import Death
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import GradientCount, ScriptDied
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule(
    "GW201",
    "wrong-number-of-gradients",
    "error",
    needs=(ScriptDied, GradientCount),
    messages=(
        r"[Ff]unction (?P<function>\S+?)(?:Backward\d*)? returned an incorrect number of gradients "
        r"\(expected (?P<expected>\d+), got (?P<got>\d+)\)",
        r"[Ff]unction '?(?P<function>[^\s']+?)(?:Backward\d*)?'? returned an invalid number of gradients - "
        r"expected (?P<expected>\d+), but got (?P<got>\d+)",
    ),
)


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    """One finding per Function: from the script's death where it died of this, else from the probe's count."""
    told = _told(facts)
    for function, deaths in told.items():
        if deaths[0].fact.subject == subject.id:
            yield _finding(dataclasses.replace(subject, name=function), deaths)
    for count in facts.of(GradientCount):
        if count.expected != count.returned and subject.name not in told:
            yield RULE.finding(
                subject,
                at=subject.location,
                message=_message(subject.name, count.expected, count.returned),
                why=_WHY,
                hints=[_hint(count.expected, count.returned, "")],
                evidence=[count.id],
            )


_WHY = "Gradients are matched to the forward's inputs by position, so there must be one for each, or None."


def _told(facts: Facts) -> dict[str, list[Death]]:
    """The deaths of each Function (the script's, and its own when tried alone), by the Function's name."""
    told: dict[str, list[Death]] = {}
    for fact in facts.all(ScriptDied):
        match = RULE.match(fact.message)
        if match is not None:
            death = Death(fact, match)
            told.setdefault(death.clue("function") or death.caught("function"), []).append(death)
    return told


def _finding(subject: Subject, deaths: list[Death]) -> Finding:
    death = deaths[0]
    expected, returned = int(death.caught("expected")), int(death.caught("got"))
    at = death.where(subject)
    raised = f" It came to light at {death.fact.location}." if death.fact.location not in (None, at) else ""
    returns = f"`{death.clue('returns')}`" if death.clue("returns") else "what it returns"
    hints = [_hint(expected, returned, death.clue("inputs"))]
    if death.clue("returns").startswith("["):
        hints.insert(0, f"{returns} is a list, which counts as one gradient: return a tuple")
    return RULE.finding(
        subject,
        at=at,
        message=_message(subject.name, expected, returned),
        why=_WHY + raised,
        hints=hints,
        evidence=[each.fact.id for each in deaths],
    )


def _message(function: str, expected: int, returned: int) -> str:
    return (
        f"{function}.backward returns {returned} gradient{'s' * (returned != 1)}; "
        f"its forward takes {expected} input{'s' * (expected != 1)}"
    )


def _hint(expected: int, returned: int, inputs: str) -> str:
    names = f" ({inputs})" if inputs else ""
    if returned < expected:
        return f"return {expected} values, one for each input of the forward{names}, None for those without a gradient"
    return f"return {expected} value{'s' * (expected != 1)}, one for each input of the forward{names}: ctx gets none"
