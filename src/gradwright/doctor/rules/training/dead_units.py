"""What it finds
    A layer before a ReLU, a tanh or a sigmoid of which more than half of the units had a gradient of exactly zero,
    weights and bias, at the last steps that were looked at: five of them and more, over 64 samples and more, while the
    next layer had a gradient.

Why it matters
    Before a ReLU, such a unit is below zero for every input: its output is always 0. Before a tanh or a sigmoid it is
    so large that the slope is 0 in floating point: its output is always the same. Nothing flows back through it, and it
    stays so. The network is smaller than it looks.

When it is fine
    A few dead units are common and not reported. Units that are silent for one batch and speak in another are not dead;
    heads and experts that are not used get no gradient from above, and don't count.

The fix
    A smaller learning rate or a warm-up, biases that do not begin far below zero, inputs around zero and of a size
    around one, normalisation before the activation; `LeakyReLU` or `GELU`, which let something through.

References
    L. Lu et al., Dying ReLU and initialization, 2020.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import DeadUnits
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW632", "dead-units", "warning", needs=(DeadUnits,))

_LOOKS, _LAST_STEP, _UNITS, _SAMPLES = 5, 8, 4, 64
_DEAD = (
    "a smaller learning rate or a warm-up; biases that begin near zero; inputs around zero",
    "or an activation that lets something through below zero: LeakyReLU, GELU",
)
_SATURATED = (
    "bring inputs to zero mean and unit variance; weights that begin smaller; a smaller learning rate",
    "or a normalisation layer (BatchNorm, LayerNorm) before the activation",
)


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for seen in facts.of(DeadUnits):
        if seen.looked_at < _LOOKS or seen.last_step < _LAST_STEP or seen.looked_at * seen.samples < _SAMPLES:
            continue
        if seen.dead < _UNITS or 2 * seen.dead <= seen.units:
            continue
        died = 2 * seen.died > seen.dead
        how_many = f"all {seen.units}" if seen.dead == seen.units else f"{seen.dead} of {seen.units}"
        state = _state(seen.activation, died=died)
        before = f" {seen.died} of them had one before, the last at step {seen.alive_at}." if died else ""
        yield RULE.finding(
            subject,
            # What was alive when the training began was killed by its steps, and their rate.
            at=(seen.optimizer_at if died else seen.location) or subject.location,
            message=f"{how_many} units of {seen.layer} {state}",
            why=f"The gradients of their weights and biases were exactly zero at each of the last {seen.looked_at} "
            f"steps that were looked at, up to step {seen.last_step}, while the layer after them had one.{before}",
            hints=_DEAD if seen.activation == "relu" else _SATURATED,
            evidence=[seen.id],
        )


def _state(activation: str, *, died: bool) -> str:
    if activation == "relu":
        return (
            "died in the training: nothing gets through their ReLU any more"
            if died
            else ("are dead: no input gets through their ReLU")
        )
    return f"{'became' if died else 'are'} saturated: their {activation} has no slope"
