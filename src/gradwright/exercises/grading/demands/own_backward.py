"""The backward is the learner's own, not autograd's: the result comes from a node of a custom Function."""

from __future__ import annotations

from torch.autograd.function import BackwardCFunction

from gradwright.exercises.grading.grading import Demand
from gradwright.exercises.grading.tried import Tried
from gradwright.exercises.outcome import NotYet


def _ask(tried: Tried) -> str:
    case = tried.cases()[0]
    result = tried.call(case, case.args())
    node = result.grad_fn
    if not isinstance(node, BackwardCFunction):
        raise NotYet(
            f"the gradient of {tried.name} is autograd's: its result comes from {type(node).__name__}",
            where=tried.where,
            why="the exercise is to write the backward by hand",
            do="return what apply returns as it is, without a further operation on it",
        )
    return "written by hand"


OWN_BACKWARD = Demand("backward", _ask)
