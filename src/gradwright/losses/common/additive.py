"""Losses that are a formula of each element: ``gw.elementwise``, with what losses add to it.

NOTE [Faults are NaN]: an element whose target or weight is refused (a NaN, a negative weight) is NaN by the formula. So
looking for faults costs nothing where there are none: only where the loss comes out as NaN, on a CPU, are the arguments
looked at, and the fault named. On an accelerator, where looking would stop the queue, the NaN itself tells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gradwright.kernels.calls import shown
from gradwright.kernels.calls.messages import refusal, told
from gradwright.kernels.elementwise import Elementwise, elementwise
from gradwright.losses.common.arguments import Options, are_values_to_be_read, refuse_values
from gradwright.losses.common.dividing import counted, share_of
from gradwright.losses.common.plans import is_planned, tell


class Fault(NamedTuple):
    """``when``: a condition of the formula's inputs, under which ``argument`` is refused; ``bad`` says the same of the
    tensor. ``what``: in words (" is NaN"), ``do``: the remedy."""

    argument: str
    when: str
    bad: Callable[[Tensor], Tensor]
    what: str
    do: str


def nan_fault(argument: str = "target") -> Fault:
    return Fault(
        argument,
        f"{argument} != {argument}",
        torch.isnan,
        "is NaN",
        f"leave it out: mask=~{argument}.isnan(), or mend the data",
    )


def negative_fault(argument: str = "weight") -> Fault:
    return Fault(
        argument,
        f"not ({argument} >= 0)",
        lambda tensor: ~(tensor >= 0),
        "is negative or NaN",
        "a weight is 0 or more; to reverse a loss, negate its value",
    )


class Additive:
    """``formula``: of one element, in terms of tensors and numbers by name; a ``weight`` multiplies it, where the call
    has one. ``faults``: for what it is NaN; see NOTE [Faults are NaN]."""

    def __init__(self, name: str, formula: str, faults: tuple[Fault, ...] = (nan_fault(),)) -> None:
        self.faults = (*faults, negative_fault()._replace(when="not (weights >= 0)"))
        # Read here, as torch.compile can't trace the reading.
        self._made = {(w, r): self._formula_of(name, formula, w, r) for w in (False, True) for r in (False, True)}

    def __call__(
        self,
        where: str,
        tensors: Mapping[str, Tensor],
        numbers: Mapping[str, float],
        options: Options,
        weight: Tensor | None = None,
    ) -> Tensor:
        """The loss. ``tensors``: of one shape, but for those that are broadcast on purpose (a weight of classes), the
        first of which has the shape of the unreduced loss."""
        lead = next(iter(tensors.values()))
        given: dict[str, Any] = {**tensors, **numbers}
        if weight is not None:
            require_weight(where, weight, lead)
            given["weights"] = weight  # not ``weight``: that name is elementwise's own, and divides a mean
        mask = options.mask
        if mask is not None:
            require_mask(where, mask, lead)
        is_reduced = options.reduction != "none"
        of = self._made[weight is not None, is_reduced]
        share = share_of(options, counted(mask, lead.numel()))
        if is_reduced:
            given["share"] = share.of_each
        if mask is not None:
            given["mask"] = mask
        value = of(**given)
        if is_planned():
            ready, values = of._sampled((), given)
            for what, fusion, operands in shown.passes(ready, values):
                plan = fusion.launch(operands).plan()
                tell(what, replace(plan, bytes=plan.bytes - _read_again(operands)))
        if are_values_to_be_read([*tensors.values(), weight, mask]) and _has_nan(value):
            self._look_for_faults(where, tensors, weight, mask)
        return value if share.after is None else value * share.after

    def _formula_of(self, name: str, text: str, is_weighted: bool, is_reduced: bool) -> Elementwise:
        faults = [fault.when for fault in self.faults if is_weighted or fault.argument != "weight"]
        if is_weighted:
            text = f"weights * ({text})"
        if is_reduced:
            text = f"share * ({text})"
        if faults:
            text = f"where({' or '.join(f'({fault})' for fault in faults)}, nan, {text})"
        return elementwise(text, reduction="sum" if is_reduced else "none", name=name)

    def _look_for_faults(
        self, where: str, tensors: Mapping[str, Tensor], weight: Tensor | None, mask: Tensor | None
    ) -> None:
        given = {**tensors} | ({"weight": weight} if weight is not None else {})
        lead = next(iter(tensors.values()))
        found = {}
        for fault in self.faults:
            tensor = given.get(fault.argument)
            if tensor is None or fault.argument in found:
                continue
            whole = tensor.detach().expand(lead.shape)
            bad = fault.bad(whole)
            if mask is not None:
                bad = bad & mask
            if bool(bad.any()):
                found[fault.argument] = (fault.what, whole, bad, fault.do)
        refuse_values(where, found)


def _read_again(operands: Sequence[Any]) -> int:
    """The bytes of operands that are the memory of another one: a variance, and the same without its graph."""
    known: set[tuple[object, ...]] = set()
    total = 0
    for operand in operands:
        if isinstance(operand, Tensor):
            memory = operand.data_ptr(), operand.shape, operand.stride()
            total += operand.nbytes if memory in known else 0
            known.add(memory)
    return total


def _has_nan(value: Tensor) -> bool:
    value = value.detach()
    return math.isnan(value.item()) if not value.ndim else bool(value.isnan().any())


def require_weight(where: str, weight: object, lead: Tensor) -> None:
    """UsageError for what is no real tensor that broadcasts to the loss's shape."""
    if not isinstance(weight, Tensor) or weight.is_complex() or weight.dtype is torch.bool:
        raise refusal(f"weight is {told(weight)}", where=where, do="hand over a tensor of numbers, 0 or more")
    require_broadcast(where, "weight", weight, lead)


def require_mask(where: str, mask: Tensor, lead: Tensor) -> None:
    require_broadcast(where, "mask", mask, lead)


def require_broadcast(where: str, name: str, tensor: Tensor, lead: Tensor) -> None:
    """UsageError, where it does not broadcast to the shape of the unreduced loss, or would make that larger."""
    own, whole = tensor.shape, lead.shape
    fits = len(own) <= len(whole) and all(a in (1, b) for a, b in zip(reversed(own), reversed(whole), strict=False))
    if not fits:
        raise refusal(
            f"{name} has shape {list(own)}, which does not broadcast to {list(whole)}",
            where=where,
            why=f"{name} says something of each element of the unreduced loss",
            do=f"give it that shape, or axes of length 1: {name}.unsqueeze(-1)",
        )
