"""What it finds
    A custom Function whose forward, run under plain autograd, gives the same gradient, at least as fast, and saves no
    more memory for the backward.

Why it matters
    A hand-written backward has to be kept right, and it costs: no double backward unless it is differentiable itself,
    no `torch.func` in the old style, one Python call each way.

When it is fine
    As an exercise; or when it is there for what the measurement does not see, such as a backward that is more stable.
    This is information, not a fault.

The fix
    The class becomes a plain function of its forward's own lines, `Name.apply(x)` a call of it. There is no fix where
    anything else is done with the class (another file knows it, it is subclassed), and where the plain function is
    neither faster nor smaller: then it is simpler, which is for you to weigh.

References
    "When to use" in the PyTorch note on extending autograd.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import DeclaredSurrogate, GradientVerdict, LoopShape, Mutated, PlainTwin
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW303", "function-not-needed", "info", needs=(PlainTwin, GradientVerdict), rewrite="plain_forward")


_AS_FAST = 1.1  # what two medians of the same thing may differ by


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    verdicts = list(facts.of(GradientVerdict))
    right = bool(verdicts) and all(verdict.verdict == "right" for verdict in verdicts)
    other = any(True for kind in (LoopShape, DeclaredSurrogate, Mutated) for _ in facts.of(kind))
    if not right or other:
        return
    for twin in facts.of(PlainTwin):
        as_fast = twin.plain_seconds <= _AS_FAST * twin.function_seconds
        as_small = twin.plain_saved_bytes <= twin.function_saved_bytes
        if twin.same_gradient and as_fast and as_small:
            yield RULE.finding(
                subject,
                at=subject.location,
                message=f"{subject.name} is not needed: plain autograd of its forward gives the same gradient as fast",
                why=f"Forward and backward took {twin.function_seconds * 1e6:.0f} us through the Function and "
                f"{twin.plain_seconds * 1e6:.0f} us without it, on {twin.tried_on}; saved for the backward: "
                f"{twin.function_saved_bytes:,} and {twin.plain_saved_bytes:,} bytes.",
                hints=["call what its forward computes directly, and delete the class"],
                evidence=[twin.id, *(verdict.id for verdict in verdicts)],
            )
