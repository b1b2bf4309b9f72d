"""The function form: ``y`` given as a function of ``wrt`` instead of a tensor of a graph that exists."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from torch import Tensor

from gradwright.derivatives.graph.recording import recording, refuse_inference
from gradwright.derivatives.graph.target import Wrt
from gradwright.errors import UsageError

#: What is differentiated: a tensor of a graph, or a function that makes it from ``wrt``.
Output: TypeAlias = Tensor | Callable[[Tensor], Tensor]


def evaluated(y: Output, wrt: Wrt, create_graph: bool) -> tuple[Tensor, Wrt]:
    """``y`` and ``wrt`` as they are, or, where ``y`` is a function, its value at ``wrt`` and the tensor it was given.

    The function is called once, on a tensor of its own with the values of ``wrt``; where the derivatives are to be
    differentiated again, they also depend on what ``wrt`` was computed from.
    Raises: UsageError where ``y`` is a function and ``wrt`` is not a tensor of floating-point or complex numbers, and
    for ``create_graph`` under ``torch.inference_mode()``.

    >>> import torch
    >>> y, x = evaluated(torch.sin, torch.zeros(3), False)
    >>> torch.autograd.grad(y.sum(), x)[0].tolist()
    [1.0, 1.0, 1.0]
    """
    refuse_inference(create_graph)
    if isinstance(y, Tensor) or not callable(y):
        return y, wrt
    if not isinstance(wrt, Tensor) or not (wrt.is_floating_point() or wrt.is_complex()):
        kind = f"{wrt.dtype} tensor" if isinstance(wrt, Tensor) else type(wrt).__name__
        raise UsageError(
            f"y is a function, so wrt has to be the tensor that it is called with, of floating-point or complex "
            f"numbers; it is a {kind}. A point inside a graph goes with a y that is a tensor"
        )
    with recording():
        if create_graph and wrt.requires_grad:
            point = wrt.view_as(wrt)
        else:  # a tensor made under inference_mode can't be recorded; its copy can
            point = (wrt.detach().clone() if wrt.is_inference() else wrt.detach()).requires_grad_()
        return y(point), point
