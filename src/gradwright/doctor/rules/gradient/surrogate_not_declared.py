"""What it finds
    A Function whose backward is not the gradient of its forward in a way that is usually meant: the forward is
    piecewise constant (rounding, sign, a threshold) and the backward passes something on, or the forward changes
    nothing and the backward does (reversal, scaling, clipping). In `gw.diagnose`, a callable too that holds gradients
    back with `detach()` or `no_grad()`.

Why it matters
    Whoever reads the code, and every tool that checks gradients, can't tell it from a mistake.

When it is fine
    Always: this is information, not a fault.

The fix
    Declare it once, in the code: `@gw.surrogate(reason="straight-through")` above the class.

References
    Bengio, Leonard, Courville 2013, "Estimating or propagating gradients through stochastic neurons" (the
    straight-through estimator); Ganin, Lempitsky 2015 (gradient reversal).
"""

from collections.abc import Iterator

from gradwright.doctor.rules.gradients import explained_within
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import DeclaredSurrogate, GradientVerdict
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW102", "surrogate-not-declared", "info", needs=(GradientVerdict,))

_HOW = {
    "piecewise constant": "its forward is piecewise constant, so its true gradient is zero, and its backward is not",
    "identity": "its forward changes nothing, and its backward does",
    "gradient held back": "gradients are held back by detach() or no_grad(), and would be its derivative otherwise",
}
_DECLARE = 'declare it, so that it is not taken for a mistake: @gw.surrogate(reason="...") above the class'


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    if any(True for _ in facts.of(DeclaredSurrogate)) or explained_within(subject, facts):
        return
    verdicts = [verdict for verdict in facts.of(GradientVerdict) if verdict.verdict == "surrogate"]
    if verdicts:
        yield RULE.finding(
            subject,
            at=subject.location,
            message=f"{subject.name} looks like a surrogate gradient on purpose",
            why=f"With respect to {verdicts[0].input_name}, {_HOW.get(verdicts[0].cause, verdicts[0].cause)}.",
            hints=[_DECLARE] if subject.kind == "function" else [],
            evidence=[verdict.id for verdict in verdicts],
        )
