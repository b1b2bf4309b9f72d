"""What it finds
    A chain of at least five layers along which gradients fall from the loss to the first layer by more than five orders
    of magnitude, layer by layer: of each layer the largest that any of the steps had which were looked at, four of them
    and more, from the first on. Compared are norms of the weights' gradients by the norms of the weights, as the
    optimizer's step found them.

Why it matters
    The layers near the input hardly move, or move by rounding noise where the optimizer scales gradients up: the deep
    part of the network is not trained.

When it is fine
    One single drop (a head that begins at zero, a small scale on a branch) is not reported; neither are embeddings,
    frozen layers, or networks whose gradients differ by some thousand times, as those of fresh deep networks do.

The fix
    ReLU and its kin instead of sigmoid and tanh, with a matching initialisation (`torch.nn.init.kaiming_normal_`);
    normalisation layers; connections that skip layers.

References
    X. Glorot, Y. Bengio, Understanding the difficulty of training deep feedforward neural networks, 2010.
"""

import itertools
from collections.abc import Iterator, Sequence

from gradwright.doctor.rules.flows import FEWEST_LOOKS, LAST_STEP, finite_rows, listed_layers
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import GradientFlow
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW630", "gradients-vanish", "warning", needs=(GradientFlow,))

_LAYERS = 5
_FALL = 5e5
# Without the largest drop from one layer to the next: the head's, as a rule.
_STEADY_FALL = 1e4
# Squares of what is smaller are no float32 any more: the norm is zero.
_UNDERFLOWS = 1e-15


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for flow in facts.of(GradientFlow):
        looks = finite_rows(flow)
        if len(looks) < FEWEST_LOOKS or flow.looked_at[looks[-1]] < LAST_STEP or len(looks) < len(flow.ratios):
            continue
        most = [max(ratios) for ratios in zip(*flow.ratios, strict=True)]
        if not _falls(most):
            continue
        steps = ", ".join(map(str, flow.looked_at))
        yield RULE.finding(
            subject,
            at=flow.location or subject.location,
            message=f"gradients vanish over {len(most)} layers: {flow.layers[0]} got up to {most[0]:.1g} of its size, "
            f"{flow.layers[-1]} never more than {most[-1]:.1g}",
            why=f"Norms of gradients by those of the weights, the largest of steps {steps}, from the loss down: "
            f"{listed_layers(flow, most)}.",
            hints=[
                "use ReLU or its kin with a matching initialisation (torch.nn.init.kaiming_normal_) instead of "
                "activations that flatten out",
                "or normalisation layers (BatchNorm, LayerNorm), or connections that skip layers",
            ],
            evidence=[flow.id],
        )


def _falls(ratios: Sequence[float]) -> bool:
    """By much, steadily. What has fallen to exactly zero did so if it was next to nothing before."""
    kept = [ratio for ratio in ratios if ratio > 0]
    if len(kept) < _LAYERS or any(ratios[len(kept) :]):
        return False
    if len(kept) < len(ratios) and kept[-1] > _UNDERFLOWS:
        return False
    fall = kept[0] / kept[-1]
    largest = max(one / other for one, other in itertools.pairwise(kept))
    return fall >= _FALL and fall / largest >= _STEADY_FALL
