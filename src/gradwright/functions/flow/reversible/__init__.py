"""Reversible networks: activations are computed again from the outputs, so that none has to be kept."""

from gradwright.functions.flow.reversible.block import ReversibleBlock, ReversibleSequence, reversible
from gradwright.functions.flow.reversible.coupling import Additive, Affine, Coupling

__all__ = ["Additive", "Affine", "Coupling", "ReversibleBlock", "ReversibleSequence", "reversible"]
