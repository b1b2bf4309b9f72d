"""What a costly pattern takes for nothing: it and what would do the same, forward and backward, on zeros of its shapes.

Seconds are those that this thread works, the best of a few rounds: a busy machine leaves them as they are. Nothing here
draws a random number.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from gradwright.doctor.observe.training.costly_nodes import Costly

_LARGEST = 256 << 20  # bytes, of one tensor
_MOST_MOVED = 1 << 29  # bytes of a trial; of more, only the copies are tried, one of them
_ROWS = 32  # of which the cost is tried, in place of more
_FEWEST_ROUNDS, _ROUNDS, _ENOUGH_SECONDS = 3, 6, 0.1  # the first round meets cold memory


def seconds_of(what: Costly) -> float:
    """What one step spends on the pattern more than it must; 0 where that is not tried. Cost: a second or two."""
    if what.device.type != "cpu" or what.bytes // what.count > _LARGEST:
        return 0.0
    with torch.enable_grad():
        if what.kind == "diagonal":
            return _of_diagonal(what)
        if what.kind == "rows":
            return _of_rows(what)
        whole = torch.zeros(what.shape, dtype=what.dtype, requires_grad=True)
        axis = _axis(what)
        if axis is None or what.bytes > _MOST_MOVED:
            each = _best(lambda: whole.detach().add_(torch.zeros(what.shape, dtype=what.dtype)))
            return what.count * each / (1 if what.kind == "entries" else 2)
        return _of_entries(what, whole, axis) if what.kind == "entries" else _of_cat(what, axis)


def _axis(what: Costly) -> int | None:
    """The axis along which entries lie, or a tensor has grown; None where the shapes don't say."""
    whole, other = what.shape, what.other
    if len(other) == len(whole):
        differs = [axis for axis, (one, two) in enumerate(zip(whole, other, strict=True)) if one != two]
        return differs[0] if len(differs) == 1 and other[differs[0]] else None
    taken = (axis for axis in range(len(whole)) if whole[:axis] + whole[axis + 1 :] == other)
    return next(taken, None) if what.kind == "entries" else None


def _of_entries(what: Costly, whole: Tensor, axis: int) -> float:
    places = range(what.count)
    if len(what.other) == len(what.shape):
        size = what.other[axis]
        starts = [place % (what.shape[axis] - size + 1) for place in places]

        def one_by_one() -> Sequence[Tensor]:
            base = whole * 1
            return [base.narrow(axis, start, size) for start in starts]

        def apart() -> Sequence[Tensor]:
            return [part for part in torch.split(whole * 1, size, axis) if part.shape[axis] == size]
    else:

        def one_by_one() -> Sequence[Tensor]:
            base = whole * 1
            return [base.select(axis, place % what.shape[axis]) for place in places]

        def apart() -> Sequence[Tensor]:
            return (whole * 1).unbind(axis)

    entry = torch.zeros(what.other, dtype=what.dtype)

    def backward_of(taken: Callable[[], Sequence[Tensor]]) -> Callable[[], object]:
        def call() -> object:
            outputs = taken()
            return torch.autograd.grad(outputs, whole, [entry] * len(outputs))

        return call

    return _best(backward_of(one_by_one)) - _best(backward_of(apart))


def _of_cat(what: Costly, axis: int) -> float:
    size = max(1, (what.shape[axis] - what.other[axis]) // max(1, what.count - 1))
    shape = (*what.shape[:axis], size, *what.shape[axis + 1 :])
    part = torch.zeros(shape, dtype=what.dtype, requires_grad=True)

    def grown() -> object:
        out = part
        for _ in range(what.count):
            out = torch.cat([out, part], axis)
        return torch.autograd.grad(out, part, out.detach())

    def at_once() -> object:
        out = torch.cat([part] * (what.count + 1), axis)
        return torch.autograd.grad(out, part, out.detach())

    return _best(grown) - _best(at_once)


def _of_rows(what: Costly) -> float:
    """As many products as the rows have operations, one row at a time, less those of all rows at once."""
    tried = min(what.count, _ROWS)
    rows = [torch.zeros(what.other, dtype=what.dtype, requires_grad=True) for _ in range(tried)]
    whole = torch.zeros((tried, *what.other), dtype=what.dtype, requires_grad=True)

    def through(one: Tensor) -> Tensor:
        for _ in range(what.operations):
            one = one * 1.0
        return one

    def one_by_one() -> object:
        outputs = [through(row) for row in rows]
        return torch.autograd.grad(outputs, rows, [one.detach() for one in outputs])

    def at_once() -> object:
        output = through(whole)
        return torch.autograd.grad(output, whole, output.detach())

    return (_best(one_by_one) - _best(at_once)) * what.count / tried


def _of_diagonal(what: Costly) -> float:
    """The product with the matrix, made, less that of rows or columns with its diagonal."""
    diagonal = torch.ones(what.shape[:-1], dtype=what.dtype, requires_grad=True)
    vector = len(what.other) == len(what.shape) - 1
    other = torch.ones((*what.other, 1) if vector else what.other, dtype=what.dtype, requires_grad=True)

    def dense() -> Tensor:
        matrix = torch.diag_embed(diagonal)
        return matrix @ other if what.dim == 0 else other @ matrix

    def direct() -> Tensor:
        return other * (diagonal[..., :, None] if what.dim == 0 else diagonal[..., None, :])

    def backward_of(product: Callable[[], Tensor]) -> Callable[[], object]:
        return lambda: torch.autograd.grad(product(), (diagonal, other), torch.ones_like(other))

    return _best(backward_of(dense)) - _best(backward_of(direct))


def _best(call: Callable[[], object]) -> float:
    times: list[float] = []
    while len(times) < _FEWEST_ROUNDS or (len(times) < _ROUNDS and sum(times) < _ENOUGH_SECONDS):
        started = time.thread_time()
        call()
        times.append(time.thread_time() - started)
    return min(times)
