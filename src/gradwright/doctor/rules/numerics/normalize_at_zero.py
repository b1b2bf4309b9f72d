"""What it finds
    `torch.nn.functional.normalize` of a row of zeros (shorter than its `eps`), through which a gradient went: it came
    out a million times too large and more, up to 1 / eps = 1e12 times the cotangent. Finite, so nothing raises.

Why it matters
    One step with such a gradient throws the row to 1e9 or farther. What is normalised looks the same as before, so the
    loss shows nothing; but the row, and everything that adds to it, never moves again. Clipping the gradient's norm
    keeps the row, and stops all others.

When it is fine
    Where nothing behind the row is trained: padding whose gradient is masked, an input, a relu at 0. That is not
    reported: it is told once a leaf's gradient shows it.

The fix
    `eps` of the size of a row that still means something (`F.normalize(x, dim=1, eps=1e-3)`); an initialisation
    without zeros (not `zeros_`, nor `padding_idx` rows in the loss); leave rows of zeros out of the loss.

References
    pytorch/pytorch#184575.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import NormalisedZeros
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW512", "normalize-at-zero", "warning", needs=(NormalisedZeros,))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for seen in facts.of(NormalisedZeros):
        rows = f"{seen.zeros} of {seen.rows} rows {'is' if seen.zeros == 1 else 'are'} shorter than eps ({seen.eps:g})"
        again = f", and in {seen.times - 1} later ones" if seen.times > 1 else ""
        yield RULE.finding(
            subject,
            at=seen.location,
            message=f"{rows}: the gradient behind this normalize reached {seen.largest:.1g}",
            why=f"There normalize divides by eps, and its slope is {1 / seen.eps:.0e}. Seen in the leaf of shape "
            f"{list(seen.leaf)} at step {seen.backwards}{again}.",
            hints=[
                "give normalize an eps that suits the rows: F.normalize(x, dim=..., eps=1e-3)",
                "keep rows of zeros out of the loss, and parameters from beginning at zero",
            ],
            evidence=[seen.id],
        )
