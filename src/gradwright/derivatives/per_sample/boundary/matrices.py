"""Products of matrices: the weights of linear layers, also where they are shared along a sequence."""

from __future__ import annotations

from torch import Tensor

from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.nodes.rule import Place
from gradwright.derivatives.per_sample.boundary.rule import Boundary, Make, apart, over_batch, rows, to_shared
from gradwright.ground.torch_versions.nodes import read_saved


def outer_products(left: Tensor, right: Tensor) -> Tensor:
    """Sum over t of left[b, t, :] right[b, t, :]^T: [B, T, m] and [B, T, n] to [B, m, n].  T = 1 needs no sum."""
    return left.mT * right if left.shape[1] == 1 else left.mT @ right


def _added(step: Step, place: Place, samples: int) -> Make | None:
    if not over_batch(step, 0, place):
        return None
    beta, shape = read_saved(step.node, "beta"), step.inputs[0].shape
    return lambda g: to_shared(g if beta == 1 else g * beta, place, samples, shape)


def _product(left: str, right: str, added: bool) -> Boundary:
    """out = alpha left @ right (+ beta added): d right = alpha left^H g, d left = alpha g right^H, sample by sample.

    The weight of a linear layer comes as right = weight^T: its gradient is made as the transpose of a contiguous one,
    so that undoing the transpose behind this step gives a contiguous tensor.
    """

    def boundary(step: Step, index: int, place: Place, samples: int) -> Make | None:
        if added and index == 0:
            return _added(step, place, samples)
        node, first = step.node, index == int(added)
        if place.axis != int(first):  # the batch lies along the columns of right, or the rows of left
            return None

        def make(g: Tensor) -> Tensor:
            other = rows(read_saved(node, right if first else left), place, samples).conj()
            mine = rows(g, place, samples)
            alpha = read_saved(node, "alpha") if added else 1
            if alpha != 1:
                mine = mine * alpha
            return outer_products(mine, other) if first else outer_products(mine, other).mT

        return make

    return boundary


def _batched(left: str, right: str, added: bool) -> Boundary:
    """The same for [P, n, k] @ [P, k, m] with the batch along n (left's rows) or m (right's columns)."""

    def boundary(step: Step, index: int, place: Place, samples: int) -> Make | None:
        if added and index == 0:
            return _added(step, place, samples)
        node, first = step.node, index == int(added)
        if place.axis != (2 if first else 1):
            return None

        def make(g: Tensor) -> Tensor:
            mine = apart(g, place, samples)
            other = apart(read_saved(node, right if first else left), place, samples).conj()
            alpha = read_saved(node, "alpha") if added else 1
            if alpha != 1:
                mine = mine * alpha
            return mine @ other.mT if first else other.mT @ mine

        return make

    return boundary


def _times_vector(matrix: str, added: bool) -> Boundary:
    """out = beta added + alpha matrix @ vector, with the batch along the matrix's rows: all share the vector."""

    def boundary(step: Step, index: int, place: Place, samples: int) -> Make | None:
        if added and index == 0:
            return _added(step, place, samples)
        if index != 1 + int(added):
            return None
        node = step.node

        def make(g: Tensor) -> Tensor:
            other = rows(read_saved(node, matrix), place, samples).conj()
            mine = apart(g, place, samples).unsqueeze(1)
            if added and read_saved(node, "alpha") != 1:
                mine = mine * read_saved(node, "alpha")
            return (mine @ other).squeeze(1)

        return make

    return boundary


BOUNDARIES: dict[str, Boundary] = {
    "MmBackward0": _product("self", "mat2", added=False),
    "AddmmBackward0": _product("mat1", "mat2", added=True),
    "BmmBackward0": _batched("self", "mat2", added=False),
    "BaddbmmBackward0": _batched("batch1", "batch2", added=True),
    "MvBackward0": _times_vector("self", added=False),
    "AddmvBackward0": _times_vector("mat", added=True),
}
