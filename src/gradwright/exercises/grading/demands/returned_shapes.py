"""A backward returns gradients of the shapes of its inputs: autograd's engine would sum them up silently otherwise."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from gradwright.exercises.grading.grading import Demand
from gradwright.exercises.grading.tried import Tried, cotangent
from gradwright.exercises.outcome import NotYet


def _ask(tried: Tried) -> str:
    cases = tried.cases()
    for case in cases:
        args = case.args()
        result = tried.call(case, args)
        assert result.grad_fn is not None
        # The node itself, not the engine: what is returned is seen as it is returned.
        backward = partial(result.grad_fn.apply, cotangent(tried.seed, result))
        returned = tried.guard(backward, f"the backward of {tried.name} on {case.label}")
        returned = returned if isinstance(returned, tuple) else (returned,)
        for name, arg, one in zip(tried.grading.arguments, args, returned, strict=False):
            if isinstance(arg, Tensor) and isinstance(one, Tensor) and one.shape != arg.shape:
                raise NotYet(
                    f"the backward of {tried.name} returns {list(one.shape)} for {name}, whose shape is "
                    f"{list(arg.shape)} ({case.label})",
                    where=tried.where,
                    why="autograd's engine sums it up where it can, without a word; that sum is this exercise",
                    do="sum the cotangent over the axes along which the forward repeats the input",
                )
    return f"those of the inputs, on {len(cases)} inputs"


RETURNED_SHAPES = Demand("shapes", _ask)
