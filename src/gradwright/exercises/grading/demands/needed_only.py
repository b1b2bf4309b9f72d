"""A backward computes only what is asked: ``ctx.needs_input_grad`` says which inputs need a gradient."""

from __future__ import annotations

from torch import Tensor

from gradwright.exercises.grading.grading import Demand
from gradwright.exercises.grading.tried import Tried, cotangent, vjp
from gradwright.exercises.grading.watched import watched
from gradwright.exercises.outcome import NotYet


def _operations(tried: Tried, needing: set[int]) -> int:
    """Of the backward, when only the inputs at these places need a gradient."""
    case = tried.cases()[0]
    args = tuple(
        arg.detach().requires_grad_(place in needing) if isinstance(arg, Tensor) and arg.is_floating_point() else arg
        for place, arg in enumerate(case.args())
    )
    result = tried.call(case, args)
    leaves = [arg for arg in args if isinstance(arg, Tensor) and arg.requires_grad]
    arriving = cotangent(tried.seed, result)
    during = f"the backward of {tried.name} on {case.label}"
    return int(tried.guard(lambda: watched(lambda: vjp(result, leaves, arriving), tried.file).count, during))


def _ask(tried: Tried) -> str:
    names = tried.grading.arguments
    every = set(range(len(names)))
    both = _operations(tried, every)
    for place, name in enumerate(names):
        without = _operations(tried, every - {place})
        if without >= both:
            raise NotYet(
                f"the backward of {tried.name} computes the gradient of {name} even if nobody needs it: "
                f"{without} operations with and without",
                where=tried.where,
                why="an input that is data needs no gradient, and its gradient may be the dearer half",
                do=f"return None for {name} unless ctx.needs_input_grad[{place}]",
            )
    return f"{both} operations for all inputs, fewer for fewer"


NEEDED_ONLY = Demand("needed only", _ask)
