"""What it finds
    A loss that gets the wrong kind of input: `cross_entropy` or `binary_cross_entropy_with_logits`, torch's or those of
    `gw.losses`, or a focal loss of these, which take logits, of what is a softmax or sigmoid already; torch's
    `nll_loss` or `kl_div`, which take log-probabilities, of probabilities or of a layer's plain output. Seen in the
    graph behind the loss.

Why it matters
    No error is raised. A softmax of probabilities is nearly flat: with 10 classes the loss can't fall below 1.46, and
    the gradient of a confident mistake nearly vanishes. `nll_loss` of probabilities or plain outputs is no likelihood:
    it is negative, and of plain outputs it has no lower bound.

When it is fine
    A log_softmax of a log_softmax changes nothing (it is told as information). Soft targets made by a softmax, and
    temperatures, are no such fault and are not reported.

The fix
    Give the loss what it takes: drop the softmax or sigmoid from the model, and apply it where probabilities are shown;
    or `nll_loss(log_softmax(x))`, `binary_cross_entropy(p)` where probabilities must stay.

References
    The documentation of torch.nn.CrossEntropyLoss, BCEWithLogitsLoss and NLLLoss.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import LossHead, LossValues
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW620", "softmax-twice", "error", needs=(LossHead, LossValues))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for head in facts.of(LossHead):
        chain = " <- ".join(head.chain)
        where = f", made at {head.made_at}," if head.made_at is not None else ""
        seen = f"seen in {head.seen} of the {head.looked} graphs that were looked at"
        if head.fault == "no log-probabilities":
            yield RULE.finding(
                subject,
                at=head.location or subject.location,
                message=f"{head.loss} takes log-probabilities, and gets what {head.made_by} made",
                why=f"The graph has {chain}: {seen}. {_negative(facts)}Such a loss is linear in what it gets, no "
                "likelihood, and training makes it fall without making the classes more likely.",
                hints=_for_nll(head),
                evidence=[head.id],
            )
        elif head.fault == "log-probabilities as logits":
            yield RULE.finding(
                subject,
                at=head.location or subject.location,
                message=f"{head.loss} takes a log_softmax of what{where} is one already",
                why=f"The graph has {chain}: {seen}. "
                + (
                    "It changes no value, and costs a pass." if head.same_values else "The two are of other dimensions."
                ),
                hints=["nll_loss takes log-probabilities as they are; cross_entropy takes the logits"],
                evidence=[head.id],
                severity="info" if head.same_values else "warning",
            )
        else:
            yield RULE.finding(
                subject,
                at=head.location or subject.location,
                message=f"{head.loss} takes logits, and gets what is already a {head.made_by}",
                why=f"The graph has {chain}: {seen}. The values{where} lie between 0 and 1, so what is made of them as "
                "logits is nearly flat: the loss can't come near 0, and gradients are too small.",
                hints=_for_logits(head),
                evidence=[head.id],
            )


def _negative(facts: Facts) -> str:
    low = next((losses.lowest for losses in facts.of(LossValues) if losses.lowest < 0), None)
    return f"The loss fell to {low:.3g}, which no mean of -log p does. " if low is not None else ""


def _for_nll(head: LossHead) -> list[str]:
    if head.loss == "kl_div":
        return ["its first argument is log_softmax(...), its second probabilities (or log_target=True)"]
    if head.made_by == "softmax":
        return ["log_softmax instead of softmax, or cross_entropy of the logits with no softmax before it"]
    return ["cross_entropy of it, which has the log_softmax inside", "or log_softmax(..., dim=1) before nll_loss"]


def _for_logits(head: LossHead) -> list[str]:
    if "binary" in head.loss or head.loss == "logsigmoid":
        return [f"drop the {head.made_by} before the loss: it has its own", "or binary_cross_entropy of probabilities"]
    if head.loss.startswith("Categorical"):
        return ["Categorical(probs=...) for probabilities", "or the logits as they are, with no softmax"]
    drop = f"drop the {head.made_by} before the loss: it has its own"
    return [drop] if "focal" in head.loss else [drop, "or nll_loss of a log_softmax"]
