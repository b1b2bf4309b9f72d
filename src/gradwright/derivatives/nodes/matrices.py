"""Products of matrices: linear layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gradwright.derivatives.nodes.rule import Jet, Place, Rule
from gradwright.derivatives.way import Step


def _addmm_batch(step: Step, place: Place, number: int) -> Sequence[Place | None]:
    # out = beta * bias + alpha * mat1 @ mat2: row i of mat1 makes row i of out; mat2 makes all of them
    _bias, first, second = step.inputs
    along_rows = place if place.axis == 0 else None
    return (None, along_rows if first.leads else None, place if place.axis == 1 and second.leads else None)


def _addmm_push(step: Step, jets: Sequence[Jet | None], order: int) -> Mapping[int, Jet]:
    bias, first, second = jets
    if bias is not None or first is None or second is not None:
        raise NotImplementedError("push through the weight of a linear layer")
    weight = step.node._saved_mat2 * step.node._saved_alpha if step.node._saved_alpha != 1 else step.node._saved_mat2
    return {0: Jet(first.first @ weight, None if first.second is None else first.second @ weight)}


def _transposed(step: Step, place: Place, number: int) -> Sequence[Place | None]:
    return (Place(1 - place.axis, place.outer, place.inner) if len(step.shape()) == 2 else place,)


RULES = {
    "AddmmBackward0": Rule(_addmm_batch, _addmm_push),
    "TBackward0": Rule(_transposed),
}
