"""What it finds
    A layer before a ReLU of which more than half of the units had a gradient of exactly zero, weights and bias, at
    every step that was looked at: five of them and more, while the next layer had a gradient.

Why it matters
    Such a unit is below zero for every input: its output is always 0, nothing flows back through it, and it stays so.
    The network is smaller than it looks.

When it is fine
    A few dead units are common and not reported. Units that are silent for one batch and speak in another are not dead;
    heads and experts that are not used get no gradient from above, and don't count.

The fix
    A smaller learning rate or a warm-up, biases that do not begin far below zero, inputs around zero, normalisation
    before the ReLU; `LeakyReLU` or `GELU`, which let something through.

References
    L. Lu et al., Dying ReLU and initialization, 2020.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import DeadUnits
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW632", "dead-units", "warning", needs=(DeadUnits,))

_LOOKS, _LAST_STEP, _UNITS = 5, 8, 4


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for seen in facts.of(DeadUnits):
        if seen.looked_at < _LOOKS or seen.last_step < _LAST_STEP or seen.dead < _UNITS or 2 * seen.dead <= seen.units:
            continue
        how_many = f"all {seen.units}" if seen.dead == seen.units else f"{seen.dead} of {seen.units}"
        yield RULE.finding(
            subject,
            at=seen.location or subject.location,
            message=f"{how_many} units of {seen.layer} are dead: no input gets through their ReLU",
            why=f"The gradients of their weights and biases were exactly zero at all of the {seen.looked_at} steps "
            f"that were looked at, up to step {seen.last_step}, while the layer after them had a gradient.",
            hints=[
                "a smaller learning rate or a warm-up; biases that begin near zero; inputs around zero",
                "or an activation that lets something through below zero: LeakyReLU, GELU",
            ],
            evidence=[seen.id],
        )
