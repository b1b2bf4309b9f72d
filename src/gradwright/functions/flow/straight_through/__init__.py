"""Straight-through estimators: the value of one function, the gradient of another.

Source: Bengio, Léonard, Courville 2013, Estimating or Propagating Gradients Through Stochastic Neurons for Conditional
Computation (arXiv 1308.3432), section 4. None of them is a derivative: the true one is zero almost everywhere.
"""

from gradwright.functions.flow.straight_through.choice import (
    ArgmaxThrough,
    BernoulliThrough,
    argmax_through,
    bernoulli_through,
)
from gradwright.functions.flow.straight_through.pair import StraightThrough, straight_through
from gradwright.functions.flow.straight_through.rounding import RoundThrough, SignThrough, round_through, sign_through

__all__ = [
    "ArgmaxThrough",
    "BernoulliThrough",
    "RoundThrough",
    "SignThrough",
    "StraightThrough",
    "argmax_through",
    "bernoulli_through",
    "round_through",
    "sign_through",
    "straight_through",
]
