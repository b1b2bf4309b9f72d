"""How gradients flow: one way per file, each as a function and as a module.

Those that are not derivatives are declared surrogates, so that ``gw.check`` reports them as such.
"""

from gradwright.functions.flow.adjoint import Simulation, integrate
from gradwright.functions.flow.checkpoint import Checkpoint, checkpoint
from gradwright.functions.flow.clip import ClipGradient, clip_gradient
from gradwright.functions.flow.fixed_point import (
    FixedPoint,
    FixedPointReport,
    NotConverged,
    NotConvergedWarning,
    fixed_point,
)
from gradwright.functions.flow.reverse import ReverseGradient, reversal_schedule, reverse_gradient
from gradwright.functions.flow.reversible import (
    Additive,
    Affine,
    Coupling,
    ReversibleBlock,
    ReversibleSequence,
    reversible,
)
from gradwright.functions.flow.scale import ScaleGradient, scale_gradient
from gradwright.functions.flow.stop import StopGradient, stop_gradient
from gradwright.functions.flow.straight_through import (
    ArgmaxThrough,
    BernoulliThrough,
    RoundThrough,
    SignThrough,
    StraightThrough,
    argmax_through,
    bernoulli_through,
    round_through,
    sign_through,
    straight_through,
)

__all__ = [
    "Additive",
    "Affine",
    "ArgmaxThrough",
    "BernoulliThrough",
    "Checkpoint",
    "ClipGradient",
    "Coupling",
    "FixedPoint",
    "FixedPointReport",
    "NotConverged",
    "NotConvergedWarning",
    "ReverseGradient",
    "ReversibleBlock",
    "ReversibleSequence",
    "RoundThrough",
    "ScaleGradient",
    "SignThrough",
    "Simulation",
    "StopGradient",
    "StraightThrough",
    "argmax_through",
    "bernoulli_through",
    "checkpoint",
    "clip_gradient",
    "fixed_point",
    "integrate",
    "reversal_schedule",
    "reverse_gradient",
    "reversible",
    "round_through",
    "scale_gradient",
    "sign_through",
    "stop_gradient",
    "straight_through",
]
