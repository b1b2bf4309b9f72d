"""Inverses, solutions, factors and determinants of matrices, and distances of points: each matrix of a batch alone."""

from __future__ import annotations

from collections.abc import Sequence

from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.nodes.algebra import moved
from gradwright.derivatives.nodes.rule import Place, Rule


def _each_matrix(*cores: int) -> Rule:
    """``cores``: how many axes of each output belong to one matrix's result; the axes before them count matrices.

    Matrices that were broadcast over some of these axes are not followed.
    """

    def batch(step: Step, place: Place, number: int) -> Sequence[Place | None]:
        shape = step.shape(number)
        counting = len(shape) - cores[number]
        found: list[Place | None] = []
        for into in step.inputs:
            alike = into.leads and len(into.shape) - 2 == counting > place.axis
            found.append(place if alike and into.shape[place.axis] == shape[place.axis] else None)
        return found

    return Rule(batch)


def _distance_batch(step: Step, place: Place, number: int) -> Sequence[Place | None]:
    # [*, P, M] and [*, R, M] to [*, P, R]
    shape = step.shape()
    last = len(shape) - 1
    found: list[Place | None] = []
    for index, into in enumerate(step.inputs):
        axis = place.axis
        if axis >= last - 1:  # a row of the result is of one point of the first, a column of one of the second
            axis = last - 1 if axis - (last - 1) == index else last
        alike = into.leads and len(into.shape) == len(shape) and into.shape[axis] == shape[place.axis]
        found.append(moved(place, axis) if alike and axis < last else None)
    return found


RULES = {
    "LinalgInvExBackward0": _each_matrix(2),
    "LinalgSolveExBackward0": _each_matrix(2),
    "LinalgSolveTriangularBackward0": _each_matrix(2),
    "LinalgCholeskyExBackward0": _each_matrix(2),
    "LinalgMatrixExpBackward0": _each_matrix(2),
    "LinalgDetBackward0": _each_matrix(0),
    "LinalgSlogdetBackward0": _each_matrix(0, 0),
    "CdistBackward0": Rule(_distance_batch),
}
