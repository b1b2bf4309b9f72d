"""What it finds
    A prediction of shape (n, 1) and a target of shape (n,), or the other way round, that meet in a difference, a
    product or one of torch's losses near the loss's root: the result is n by n, and its mean is the loss.

Why it matters
    Nothing fails, and the loss falls. But every prediction is compared with every target, so that the best that the
    model can do is the mean of all targets. torch warns of it in `mse_loss` and its kin, and nowhere else.

When it is fine
    Pairs on purpose are written so: `x[:, None] - y[None]`, `unsqueeze`, `cdist`. They are not reported, and neither is
    what is no column against a flat tensor of the same length.

The fix
    Give both one shape: `model(x).squeeze(-1)`, or `target.unsqueeze(-1)`.

References
    pytorch/pytorch#47870. The broadcasting semantics in torch's documentation.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import LossBroadcast
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW622", "loss-broadcast", "error", needs=(LossBroadcast,))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for fact in facts.of(LossBroadcast):
        with_ = f" with {list(fact.target)}" if fact.target else ""
        yield RULE.finding(
            subject,
            at=fact.location or subject.location,
            message=f"the loss broadcasts {list(fact.prediction)}{with_} to {list(fact.result)}: every prediction "
            "meets every target",
            why=f"`{fact.operation}` makes a matrix of {fact.result[0]} by {fact.result[1]} of them, and its mean or "
            f"sum is the loss: seen in {fact.seen} of the {fact.looked} graphs that were looked at. Each prediction is "
            "pulled towards the mean of all targets.",
            hints=_squeezed(fact),
            evidence=[fact.id],
        )


def _squeezed(fact: LossBroadcast) -> list[str]:
    if len(fact.prediction) == 2:
        return ["squeeze the prediction: model(x).squeeze(-1)", "or give the target its column: target.unsqueeze(-1)"]
    return ["flatten the target: target.squeeze(-1)", "or keep the prediction's column, without its squeeze"]
