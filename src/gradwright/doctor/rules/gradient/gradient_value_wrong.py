"""What it finds
    A custom Function whose backward returns another gradient than its forward has. Two oracles judge: autograd through
    the Function's own forward, and finite differences of that forward at two step sizes; where they part, finite
    differences decide, and where those are unstable the verdict is "unknown" and this rule is silent. Where the run
    calls the Function again between a forward and its backward, that is tried too: what it keeps on the class or in a
    global instead of on `ctx` is then another call's.

Why it matters
    Nothing fails. The optimizer follows a direction that is not downhill, training is slower or ends elsewhere, and a
    factor hides in the learning rate.

When it is fine
    When the backward is meant to be something else: straight-through estimators, gradient reversal, clipping. Those
    where the forward is the identity or piecewise constant are recognised (GW102); declare any other with
    `@gw.surrogate(reason="...")`.

The fix
    The cause that fits is named: a constant factor, the sign, a sum for a mean, a missing or nonlinear cotangent, a
    transpose, a permutation, swapped inputs, a dropped term, an additive offset, one region of the input, mixed rows,
    lost precision, chance, state kept between calls. Otherwise the entry that differs most is shown with both values.
    A constant factor, a sign, a missing cotangent, a transpose, swapped inputs, an order that was changed, a term that
    holds no cotangent are mended where they stand. Where that is not enough and the forward can be traced,
    the backward that follows from it is written in place of the wrong one, as `gw.derive` writes it, and tried.

References
    pytorch/pytorch#4355 (a backward that ignores its cotangent passes under `.sum()`), pytorch/pytorch#59615.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.gradients import explained_within
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import DeclaredSurrogate, FunctionCalls, GradientVerdict
from gradwright.doctor.session.model import Finding, Subject
from gradwright.doctor.session.place import Location

RULE = Rule("GW101", "gradient-value-wrong", "error", needs=(GradientVerdict,), rewrite="mend_gradient")

_FACTORS = ("constant factor", "sum for mean")
_OUT_OF_GRAPH = (
    "look for what leaves the graph on the way: .numpy(), .item(), .tolist(), .detach(), .data, torch.tensor(...)"
)


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    if any(True for _ in facts.of(DeclaredSurrogate)) or explained_within(subject, facts):
        return
    wrong: dict[int, list[GradientVerdict]] = {}
    for verdict in facts.of(GradientVerdict):
        if verdict.verdict == "wrong":
            wrong.setdefault(verdict.input_index, []).append(verdict)
    for verdicts in wrong.values():
        worst = max(verdicts, key=lambda verdict: verdict.error)
        yield RULE.finding(
            subject,
            at=_place(subject, facts, worst.input_index),
            message=f"{_owner(subject)} {_what(worst)}",
            why=_why(worst, len(verdicts)),
            hints=_hints(worst, facts) if subject.kind == "function" else [_OUT_OF_GRAPH],
            evidence=[verdict.id for verdict in verdicts],
            # What an installed package does to its own gradients may be meant, and is not the user's to mend.
            severity="warning" if subject.origin == "library" else None,
        )


def _owner(subject: Subject) -> str:
    return f"{subject.name}.backward returns" if subject.kind == "function" else f"autograd of {subject.name} gives"


def _place(subject: Subject, facts: Facts, index: int) -> Location:
    """What is returned for this input; the whole backward where that can't be told."""
    for calls in facts.of(FunctionCalls):
        if index < len(calls.returns) or len(calls.returns) == 1:  # one expression may return for all of them
            return calls.returns[min(index, len(calls.returns) - 1)]
        return calls.backward_at or subject.location
    return subject.location


def _what(verdict: GradientVerdict) -> str:
    name, factor = verdict.input_name, verdict.factor
    if verdict.cause == "sign":
        return f"the gradient of {name} with the wrong sign"
    if verdict.cause in _FACTORS and factor is not None:
        words = {0.5: "half", 2.0: "twice", 3.0: "three times", 1 / 3: "a third of", 0.25: "a quarter of"}
        word = next(
            (text for value, text in words.items() if abs(factor - value) <= 1e-6 * value), f"{factor:.6g} times"
        )
        return f"{word} the gradient of {name}"
    if verdict.cause == "dropped term" and factor == 0:
        return f"no gradient of {name}, which is not zero"
    if verdict.cause == "transpose":
        return f"the gradient of {name} transposed"
    if verdict.cause == "missing grad_output":
        return f"a gradient of {name} that ignores the cotangent it was given"
    if verdict.cause == "state kept between calls" and _of_another_call(verdict):
        return f"a gradient of {name} that another call has changed"
    more = f" ({verdict.reason})" if verdict.reason else ""
    return f"a wrong gradient of {name}" + ("" if verdict.cause == "formula" else f": {verdict.cause}{more}")


def _of_another_call(verdict: GradientVerdict) -> bool:
    return verdict.reason.startswith("right for one call alone")


def _why(verdict: GradientVerdict, times: int) -> str:
    values = ""
    if verdict.returned is not None and verdict.expected is not None:
        at = list(verdict.at) if verdict.at else ""
        values = f" {verdict.input_name}{at}: returned {verdict.returned:.6g}, is {verdict.expected:.6g}."
    if verdict.cause == "state kept between calls" and _of_another_call(verdict):
        return f"It is right for one call alone. With a second call before its backward, as in this run,{values}"
    return (
        f"{' and '.join(verdict.oracles).capitalize()} of its own forward say otherwise on {times} "
        f"specimen{'s' if times > 1 else ''} ({verdict.tried_on}); relative error {verdict.error:.2g}, "
        f"tolerance {verdict.tolerance:.1g}.{values}"
    )


def _factors(verdict: GradientVerdict, facts: Facts) -> dict[float, str]:
    """By what the gradient of this input is off, rounded, with the first specimen for each: 1 where it is right."""
    found: dict[float, str] = {}
    for one in facts.of(GradientVerdict):
        if one.input_index == verdict.input_index and (one.verdict == "right" or one.cause in _FACTORS):
            factor = 1.0 if one.verdict == "right" else one.factor
            if factor is not None:
                found.setdefault(float(f"{factor:.3g}"), one.tried_on)
    return found


def _hints(verdict: GradientVerdict, facts: Facts) -> list[str]:
    by_cause = {
        "sign": "flip the sign of what is returned for {name}",
        "dropped term": "add the missing term to what is returned for {name}; None says that it has no gradient",
        "transpose": "transpose what is returned for {name}",
        "permutation": "undo in the backward the order in which the forward took the values",
        "swapped inputs": "return the gradients in the order of the forward's inputs",
        "nonlinear in the cotangent": "every term of a vjp holds the cotangent once, as a factor: no abs or clamp",
        "additive offset": "every term of a vjp holds the cotangent as a factor: for a cotangent of zero it is zero",
        "batch rows mixed": "keep the rows apart: a reduction runs over the batch axis that should not",
        "precision lost": "compute in the dtype of the inputs: look for .float(), .half(), float32 constants, tables",
        "nondeterminism": "save in the forward what was drawn there: the backward must not draw again",
        "missing grad_output": "multiply by the cotangent: a backward returns a vjp, not a derivative; "
        "`loss.sum()` hides this, because its cotangent is all ones",
    }
    if verdict.cause in _FACTORS and verdict.factor:
        factors = _factors(verdict, facts)
        if len(factors) > 1:  # a constant would be right at one shape and wrong at the next
            told = "; ".join(f"{factor:g} at {at}" for factor, at in list(factors.items())[:3])
            return [f"look for a size that is left out or counted twice: the factor hangs on the input ({told})"]
        inverse = f"{1 / verdict.factor:.6g}"
        if abs(verdict.factor) < 1 and inverse.lstrip("-").isdigit():  # half of it: times 2
            return [f"multiply what is returned for {verdict.input_name} by {inverse}"]
        return [f"divide what is returned for {verdict.input_name} by {verdict.factor:.6g}"]
    if verdict.cause == "state kept between calls":
        return ["keep what the backward needs on ctx: on the class or in a global, the last call's is what all find"]
    hint = by_cause.get(verdict.cause, "derive the vjp for {name} again from what the forward computes")
    return [
        hint.format(name=verdict.input_name),
        'if it is meant to differ from the true gradient, say so: @gw.surrogate(reason="...")',
    ]
