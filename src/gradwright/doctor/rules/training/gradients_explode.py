"""What it finds
    Gradients that grow on their way from the loss to the first layers, by a thousand times and more, and are hundreds
    of times as large as the weights themselves when the optimizer's step begins: at every step that was looked at, or
    until they were no numbers any more. How they grow is read from the gradients of the biases, which know neither the
    size of the inputs nor that of the targets.

Why it matters
    A step moves the weights by far more than their own size; the loss jumps, and ends in inf and NaN. An optimizer that
    scales each entry (Adam) moves in directions that are mostly chance.

When it is fine
    Gradients that are large because the loss is (a sum, targets in the thousands) do not grow from layer to layer and
    are not reported; neither are gradients that were clipped before the step.

The fix
    An initialisation that fits (`torch.nn.init.kaiming_normal_`, `orthogonal_`), normalisation layers, and
    `torch.nn.utils.clip_grad_norm_` before the step.

References
    R. Pascanu, T. Mikolov, Y. Bengio, On the difficulty of training recurrent neural networks, 2013.
"""

import math
from collections.abc import Iterator

from gradwright.doctor.rules.flows import finite_rows, listed_layers
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import GradientFlow
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW631", "gradients-explode", "warning", needs=(GradientFlow,))

_GROWTH = 1e3
_BY_THE_WEIGHTS = 100.0
_FEWEST_LOOKS = 3


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for flow in facts.of(GradientFlow):
        looks = finite_rows(flow)
        broken = next((flow.looked_at[index] for index in range(len(flow.ratios)) if index not in looks), None)
        growths = {index: growth for index in looks if (growth := _growth(flow, index)) is not None}
        if not growths or (len(growths) < _FEWEST_LOOKS and broken is None):
            continue
        if looks != [*range(len(looks))] or not all(max(flow.ratios[index]) >= _BY_THE_WEIGHTS for index in looks):
            continue
        if min(growths.values()) < _GROWTH:
            continue
        first = flow.ratios[0]
        largest = max(range(len(first)), key=lambda layer: first[layer])
        factors = ", ".join(f"{growths[index]:.0e} (step {flow.looked_at[index]})" for index in [*growths][:6])
        then = f" From step {broken} on they are not finite." if broken is not None else ""
        yield RULE.finding(
            subject,
            at=flow.location or subject.location,
            message=f"gradients explode: that of {flow.layers[largest]} is {first[largest]:.1g} of the weight's size "
            f"at step {flow.looked_at[0]}",
            why=f"Norms of gradients by those of the weights, from the loss down: {listed_layers(flow, first)}. From "
            f"the last layer's bias to the others they grew by factors of {factors}; nothing had clipped them.{then}",
            hints=[
                "begin with weights that keep the size of what passes: torch.nn.init.kaiming_normal_, orthogonal_",
                "or normalisation layers; torch.nn.utils.clip_grad_norm_ before the step bounds the damage",
            ],
            evidence=[flow.id],
        )


def _growth(flow: GradientFlow, index: int) -> float | None:
    """From the bias nearest to the loss to the largest; 0 where the chain has no two biases. ``None`` where the first
    is exactly 0: errors of both signs cancelled there, and say nothing of the growth."""
    biases = [bias for bias in flow.biases[index] if not math.isnan(bias)]
    if len(biases) < 2 or math.isnan(flow.biases[index][0]):
        return 0.0
    return max(biases[1:]) / biases[0] if biases[0] > 0 else None
