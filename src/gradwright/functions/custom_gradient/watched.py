"""A backward that leaves the graph (``detach``, ``.data``, ``no_grad``, NumPy) has a second derivative that is silently
zero.

Where a backward runs with a graph, it is watched: what it detaches is followed, and a gradient that is made of it, and
not connected to it otherwise, comes out with a refusal added: a zero that raises when it is differentiated. Comparisons
are no loss: the derivative of a mask is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from gradwright.functions.custom_gradient.messages import complaint
from gradwright.ground.tensors import tensors_in
from gradwright.ground.torch_versions.levels import forward_mode_is_on

_CUTS = {torch.Tensor.detach, torch.detach, torch.Tensor.data.__get__}  # type: ignore[attr-defined]  # torch's stub calls `data` a tensor
_EXITS = {torch.Tensor.numpy, torch.Tensor.item, torch.Tensor.tolist, torch.Tensor.__float__, torch.Tensor.__array__}
_NODES = 10_000  # of a graph that are looked at, before it counts as connected

Row = Sequence[Tensor | None]


def watched(pull: Callable[[Row, Row], Row], cotangents: Row, saved: Row, what: str, where: str) -> Row:
    """``pull(cotangents, saved)``, each gradient with a refusal where it lost one of them. ``what`` and ``where`` are
    for the message.  Cost: a look at every operation of ``pull``; none where nothing can be differentiated."""
    given = [*cotangents, *saved]
    tangents = forward_mode_is_on()
    places = [
        place
        for place, tensor in enumerate(given)
        if tensor is not None and (tensor.requires_grad or (tangents and tensor.is_floating_point()))
    ]
    if not places:
        return pull(cotangents, saved)
    gradients: Row = []
    missing: list[set[int]] = []

    def run(*anchors: Tensor) -> tuple[Tensor, ...]:
        nonlocal gradients
        row = list(given)
        # One node for each, to be found again behind what is computed of it.
        aliases = [anchor.view_as(anchor) for anchor in anchors]
        for place, alias in zip(places, aliases, strict=True):
            row[place] = alias
        with _Watch(aliases) as watch:
            gradients = pull(row[: len(cotangents)], row[len(cotangents) :])
        missing[:] = [watch.missing(gradient) for gradient in gradients]
        return tuple(gradient for gradient in gradients if gradient is not None)

    anchors = [tensor for place in places if (tensor := given[place]) is not None]
    # Tangents leave no graph to look at: torch.func makes one.
    found = iter(torch.func.vjp(run, *anchors)[0] if tangents else run(*anchors))
    return [
        None if gradient is None else _refusing(next(found), [anchors[place] for place in sorted(lost)], what, where)
        for gradient, lost in zip(gradients, missing, strict=True)
    ]


class _Watch(TorchFunctionMode):
    """``lost``: by the id of a tensor, places of the anchors that were lost on the way to it; ``gone``: of those whose
    values left torch."""

    def __init__(self, anchors: Sequence[Tensor]) -> None:
        super().__init__()
        self.nodes = {anchor.grad_fn: place for place, anchor in enumerate(anchors)}
        self.lost: dict[int, set[int]] = {}
        self.gone: set[int] = set()
        self.alive: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        handed = list(tensors_in([args, kwargs or {}]))
        lost: set[int] = set()
        for tensor in handed:
            lost |= self.lost.get(id(tensor), set())
            if tensor.requires_grad and (func in _CUTS or func in _EXITS or not torch.is_grad_enabled()):
                lost |= self.reached(tensor)
        if lost:
            if func in _EXITS:
                self.gone |= lost
            name = getattr(func, "__name__", "")
            written = handed[:1] if name == "__setitem__" or (name.endswith("_") and not name.endswith("__")) else []
            for tensor in [*tensors_in(result), *written]:
                if tensor.is_floating_point() or tensor.is_complex():
                    self.alive.append(tensor)  # its id must not be given to another
                    self.lost[id(tensor)] = self.lost.get(id(tensor), set()) | lost
        return result

    def missing(self, gradient: Tensor | None) -> set[int]:
        """The anchors that a gradient is made of and does not lead to."""
        if gradient is None:
            return set()
        lost = self.lost.get(id(gradient), set()) | self.gone
        return lost - self.reached(gradient) if lost else lost

    def reached(self, tensor: Tensor) -> set[int]:
        """The anchors that the graph of a tensor leads to."""
        found: set[int] = set()
        seen, left = set(), [tensor.grad_fn]
        while left:
            node = left.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            if len(seen) > _NODES:
                return set(self.nodes.values())
            if node in self.nodes:
                found.add(self.nodes[node])
            else:
                left += [following for following, _ in node.next_functions]
        return found


def _refusing(gradient: Tensor, lost: Sequence[Tensor], what: str, where: str) -> Tensor:
    if not lost:
        return gradient
    zero: Tensor = _Refusal.apply(_Told(what, where), torch.zeros_like(gradient), *lost)  # type: ignore[no-untyped-call]
    return gradient + zero


class _Told:
    """What a refusal says; no tuple, which vmap would open."""

    def __init__(self, what: str, where: str) -> None:
        self.what, self.where = what, where

    def complaint(self) -> Exception:
        return complaint(
            f"a second derivative of {self.what}, whose backward leaves the graph",
            where=self.where,
            why="it detaches what it was handed, or takes it to NumPy, so autograd sees a constant: it would be zero",
            do="compute the backward by torch operations on what it is handed",
        )


class _Refusal(torch.autograd.Function):
    """Its second argument; there is no derivative by the others."""

    generate_vmap_rule = True

    @staticmethod
    def forward(told: _Told, zero: Tensor, *lost: Tensor) -> Tensor:
        return zero.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.told = inputs[0]

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> Any:
        raise ctx.told.complaint()

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Any:
        raise ctx.told.complaint()
