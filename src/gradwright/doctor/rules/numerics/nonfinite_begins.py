"""What it finds
    The first operation, forward or backward, whose operands were finite and whose result was not, and whose NaN or inf
    reached the loss or the gradient of a parameter: to line and column, with the values there and the cause. It is
    found in a second run of a script whose loss was nan or infinite: by itself where the first run took less than 30
    seconds, else with `--rerun`; `--no-rerun` leaves it. A script that looks for itself (`if torch.isnan(loss):
    continue`, `assert torch.isfinite(loss)`) is run again as well.

    Told apart are: a branch of `torch.where` that is not taken (the gradient that arrives there is exactly 0, and 0 *
    inf is NaN); the edge of what an operation is defined on (square root, logarithm, power, acos, a norm at 0); an
    exponential that overflows; half precision that ends at 65504; a division by a count of 0, by a norm or a
    deviation of 0, by 0; a softmax of a row that is all masked; 0 * inf, inf - inf, inf / inf; values that had exploded
    before; data or parameters that held NaN from the start; an optimizer's own update.

Why it matters
    What fails first is seldom where it is noticed. `set_detect_anomaly` looks at the backward only, and only for NaN:
    where a square root at 0 gives inf, it blames the harmless square behind it.

When it is fine
    An inf that is masked out on the way, and one that a gradient scaler skips, are not reported.

The fix
    A text of the same values that stays finite there: `torch.linalg.vector_norm` or a double `torch.where` for a root
    at 0, a guarded operand in a branch that is not taken, `log_softmax`, `logsigmoid`, `logsumexp`, `softplus`,
    `softmax` for what is composed of exponentials and logarithms, a count of 1 at least, the lowest number in place of
    -inf in a row that is all masked, `torch.where` for a product with a mask. It is tried in one more run of the
    script: the losses before the break stay, at the place all values and gradients that were finite stay, and it stays
    finite there for three steps more. What else has to be decided (a learning rate, the value of 1 / 0) is yours; the
    hints say what there is. For one's own loop there is `gw.explain_nonfinite()`.

References
    pytorch/pytorch#68425, #187297 (where and NaN), #184575 (normalize at 0).
"""

import math
from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import (
    LossValues,
    MaskPair,
    NonfiniteBegins,
    OwnLook,
    ScriptDied,
    WeightsNotFinite,
)
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule(
    "GW511",
    "nonfinite-begins",
    "error",
    needs=(NonfiniteBegins, LossValues, MaskPair, OwnLook, ScriptDied, WeightsNotFinite),
    rewrite="keep_finite",
    causes=("GW501", "GW631"),
)

_GREW = 100.0
_GOES_ON = ("continue", "skip")  # what a script does that leaves out a loss
_CAUSES = {
    "where-nan": "its value is not used, but 0 times an infinite slope is NaN",
    "boundary": "its operand is where it is not finite",
    "exp-overflow": "the exponential overflows",
    "half-overflow": "the result does not fit into half precision",
    "overflow": "the result is too large for its format",
    "explosion": "its values had exploded before",
    "zero-count": "a division by a count of 0",
    "division-by-zero": "a division by 0",
    "normalize-at-zero": "a division by a norm of 0",
    "zero-spread": "a division by a deviation of 0",
    "masked-row": "a whole row is masked",
    "zero-times-inf": "0 times inf",
    "inf-minus-inf": "inf minus inf",
    "inf-over-inf": "inf divided by inf",
    "constant": "it is made of numbers that are not finite",
    "uninitialised": "memory that nobody had written to",
    "update": "the update itself",
}


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for begin in facts.of(NonfiniteBegins):
        loss = next((loss for loss in facts.of(LossValues)), None)
        hidden = (loss is None or loss.first_nonfinite_step is None) and not any(facts.all(WeightsNotFinite))
        looks = [*facts.all(OwnLook)] if hidden else []
        raised = any(look.how == "raise" for look in looks)
        deaths = [death.id for death in facts.all(ScriptDied) if death.is_of_nan or raised]  # it needs no other finding
        told = [_story(loss, begin.loss_step), f"{_seen(begin)}. {begin.why}", *_then(begin), *map(_left_out, looks)]
        yield RULE.finding(
            subject,
            at=begin.location or subject.location,
            message=_message(begin),
            why=". ".join(text for text in told if text) + ".",
            hints=list(begin.hints),
            evidence=[begin.id, *([loss.id] if loss is not None else []), *(look.id for look in looks), *deaths],
            severity="info"
            if loss is not None and _was_negative(loss, facts)
            else "warning"
            if looks and all(look.how in _GOES_ON for look in looks)
            else None,
        )


def _was_negative(loss: LossValues, facts: Facts) -> bool:
    """The loss of masks that do not complement falls below zero, and without bound: GW501 tells that story."""
    negative, broke = loss.first_negative_step, loss.first_nonfinite_step
    return any(facts.all(MaskPair)) and negative is not None and broke is not None and negative < broke


def _left_out(look: OwnLook) -> str:
    """What the script itself made of it."""
    if look.how in _GOES_ON:
        times = "once" if look.times == 1 else f"{look.times} times"
        return f"The script left such a loss out by itself, {times} ({look.location.path}:{look.location.line})"
    return f"The script broke off by itself ({look.location.path}:{look.location.line})"


def _message(begin: NonfiniteBegins) -> str:
    value = _value(begin)
    if begin.phase == "given":
        return f"{begin.operation} held {value} before anything was computed of it"
    what = f"`{begin.text}`" if begin.text and not begin.text.endswith("...") else begin.operation
    where = f"the backward of {what}" if begin.phase == "backward" else what
    cause = _CAUSES.get(begin.cause, "")
    if begin.cause == "boundary" and begin.phase == "backward":
        cause = "its operand is where it has no finite slope"
    return f"{value} begins in {where}" + (f": {cause}" if cause else "")


def _then(begin: NonfiniteBegins) -> list[str]:
    """What became of it; that it is in the loss, GW502 says."""
    told = [text for text in begin.then if "is in the loss" not in text]
    return [f"Its{text[3:]}" if text.startswith("its ") else f"Then {text}" for text in told]


def _story(loss: LossValues | None, step: int) -> str:
    """What the loss was at step 0, when it grew, when it broke."""
    if loss is None or not loss.history:
        return ""
    before = [value for value in loss.history[:step] if math.isfinite(value)]
    broke = f" and {loss.first_nonfinite} at step {step}" if loss.first_nonfinite_step is not None else ""
    if not before:
        return f"The loss was{broke.removeprefix(' and')}" if broke else ""
    first = before[0]
    parts = [f"{first:.3g} at step 0" + (" (negative)" if first < 0 else "")]
    large = _GREW * max(abs(first), 1.0)
    grew = next((step for step, value in enumerate(before) if abs(value) > large), None)
    if grew is not None:
        parts.append(f"{before[grew]:.3g} at step {grew}, where it began to grow without bound")
    last_step, last = loss.last_before(step) or (0, first)
    if last_step > 0 and grew != last_step:
        parts.append(f"{last:.3g} at step {last_step}")
    return f"The loss was {', '.join(parts)}{',' if broke else ''}{broke}"


def _seen(begin: NonfiniteBegins) -> str:
    """At which step, which entry, and the values there."""
    entry = f"entry {list(begin.entry)} of {list(begin.shape)}" if begin.entry else "its value"
    whose = {"backward": " of the gradient it returns", "given": "", "optimizer step": ""}.get(
        begin.phase, " of its result"
    )
    values = [f"{name} {number:.4g}" for name, number in begin.operands]
    if begin.upstream is not None:
        values.append(f"gradient that arrives {begin.upstream:.4g}")
    shown = f" ({', '.join(values)})" if values else ""
    phase = {"optimizer step": "the optimizer's step", "given": "as it was taken"}.get(begin.phase, begin.phase)
    return f"In step {begin.step} ({phase}), {entry}{whose if begin.entry else ''} is {_value(begin)}{shown}"


def _value(begin: NonfiniteBegins) -> str:
    return "NaN" if begin.value == "nan" else begin.value
