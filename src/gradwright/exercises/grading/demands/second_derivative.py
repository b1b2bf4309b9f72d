"""The result can be differentiated twice, and the second derivative is right."""

from __future__ import annotations

from torch import Tensor

from gradwright.exercises.grading.compared import difference
from gradwright.exercises.grading.grading import Demand
from gradwright.exercises.grading.tried import Tried, cotangent, vjp
from gradwright.exercises.outcome import NotYet


def _ask(tried: Tried) -> str:
    case = tried.cases()[0]
    args, exact = case.args(), case.exact()
    names = tried.grading.arguments
    leaves = case.leaves_of(args, names)
    first = tried.gradient(tried.call(case, args), leaves, case, create_graph=True)
    total = sum((one.square().sum() for one in first.values()), start=args[0].new_zeros(()))
    if not total.requires_grad:
        raise NotYet(
            f"the gradient of {tried.name} can't be differentiated again",
            where=tried.where,
            why="a penalty on a gradient, or Newton's method, needs the derivative of the backward",
            do="compute the backward from saved tensors, without detach, no_grad or once_differentiable",
        )
    got = tried.guard(
        lambda: vjp(total, list(leaves.values()), total.new_ones(())), f"the second derivative of {tried.name}"
    )
    truth = tried.grading.outcome(tried.grading.reference, exact)
    exact_leaves = list(case.leaves_of(exact, names).values())
    exact_first = vjp(truth, exact_leaves, cotangent(tried.seed, truth), create_graph=True)
    exact_total = sum((one.square().sum() for one in exact_first), start=truth.new_zeros(()))
    expected: list[Tensor] = vjp(exact_total, exact_leaves, exact_total.new_ones(()))
    for name, one, should in zip(leaves, got, expected, strict=True):
        _, words = difference(one, should, case.tolerance)
        if words:
            raise NotYet(
                f"the second derivative of {tried.name} with respect to {name} is not right: {words}",
                where=tried.where,
                do="is every tensor that the backward uses an input or an output, saved by save_for_backward?",
            )
    return "right"


SECOND_DERIVATIVE = Demand("second derivative", _ask)
