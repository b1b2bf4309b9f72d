"""The same backward as a custom operator, for ``torch.library.opcheck``, which judges no ``autograd.Function``.

It applies where the fault lies in the backward alone or in a forward that writes into an input, to forwards that are
transparent (opcheck traces them with fake tensors, which NumPy can't take), and where the right one of the same
place is accepted.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor

from corpus.cases import Case
from corpus.wrapping import Wrapping, right_backward, unpacked

_number = itertools.count()


class _Context:
    """What a spoiled forward asks of ctx: here nothing comes of it."""

    def save_for_backward(self, *_: Tensor) -> None: ...

    def mark_non_differentiable(self, *_: Tensor) -> None: ...

    def set_materialize_grads(self, _: bool) -> None: ...


def _registered(wrapping: Wrapping) -> Any:
    """The wrapping as ``corpus::op<n>``; operators can't be taken back, so each gets a name of its own."""
    specimen = wrapping.specimen
    with torch.no_grad():
        count = len(specimen.call(*specimen.fresh()))
    arguments = ", ".join(f"Tensor a{index}" for index in range(len(specimen.args)))
    results = "Tensor" if count == 1 else "(" + ", ".join("Tensor" for _ in range(count)) + ")"

    def compute(*args: Tensor) -> Any:
        outputs = wrapping.forward(_Context(), wrapping, args) if wrapping.forward else specimen.call(*args)
        return unpacked(tuple(output.clone() for output in outputs))

    def setup(ctx: Any, inputs: tuple[Tensor, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs)

    def backward(ctx: Any, *cotangents: Tensor | None) -> Any:
        return (wrapping.backward or right_backward)(ctx, wrapping, cotangents)

    operator = torch.library.custom_op(
        f"corpus::op{next(_number)}", compute, mutates_args=(), schema=f"({arguments}) -> {results}"
    )
    operator.register_fake(lambda *args: unpacked(tuple(output.clone() for output in specimen.call(*args))))
    operator.register_autograd(backward, setup_context=setup)
    return operator


def _accepted(wrapping: Wrapping) -> bool:
    try:
        torch.library.opcheck(_registered(wrapping), wrapping.specimen.fresh())
    except Exception:  # that is how opcheck rejects
        return False
    return True


def opcheck_accepts(case: Case) -> bool | None:
    """Does opcheck accept it? ``None`` where it does not apply."""
    if case.right is None or case.opaque or case.in_place or case.stochastic:
        return None
    wrapping = case.wrapping()
    writes = "in-place on an input" in case.style
    if wrapping.setup or wrapping.extra or ((wrapping.forward or wrapping.once) and not writes):
        return None
    if case.spoiler is not None and not _accepted(wrapping.but(forward=None, backward=None)):
        return None
    return _accepted(wrapping)
