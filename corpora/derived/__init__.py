"""Forwards as users write them, by family, and some that no backward can be derived for.

>>> from corpora.derived import FORWARDS
>>> forward = FORWARDS["swish"]
>>> forward.function(*forward.inputs(12)).shape
torch.Size([12])
"""

from corpora.derived import (
    activations,
    algebra,
    attention,
    distances,
    first_gradients,
    losses,
    normalisations,
    physics,
    sequences,
)
from corpora.derived.forward import Forward, Refusal
from corpora.derived.refusals import REFUSALS as _REFUSALS

__all__ = ["FAMILIES", "FORWARDS", "REFUSALS", "Forward", "Refusal"]

FAMILIES = {
    module.__name__.rpartition(".")[2]: module.FORWARDS
    for module in (
        activations,
        losses,
        first_gradients,
        attention,
        normalisations,
        distances,
        physics,
        algebra,
        sequences,
    )
}
FORWARDS = {forward.name: forward for family in FAMILIES.values() for forward in family}
REFUSALS = {refusal.name: refusal for refusal in _REFUSALS}
