"""Does a call change what it was only lent? By value, since writes through ``.data`` evade version counters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction

from gradwright.check.chance import signed
from gradwright.check.context import FunctionType, bound_arguments, input_names, run_forward
from gradwright.check.copies import copy_in_graph, fresh_copy, is_expanded
from gradwright.check.trial import HALF, quiet, tensors_in
from gradwright.check.verdict import Mutation


def find_mutations(
    function: FunctionType, args: Sequence[Any], wanted: Sequence[bool], *, seed: int = 0
) -> tuple[Mutation, ...]:
    """Inputs, cotangents and saved tensors whose values forward or backward changed, in one real call.

    ``args`` stay as they are. A backward that raises is no hindrance: what it changed until then is told. Raises
    nothing; a forward that raises has no mutations. An input that wants no gradient and that the outputs don't depend
    on is a state which the forward keeps (running statistics, a counter): its change is no mutation. Cost: two
    forwards, one backward, a copy of every tensor; two forwards more for each such input.
    """
    with quiet(HALF, seed), torch.enable_grad():
        declared = _declared(function, args, wanted)
        handed = fresh_copy(args).args
        for index, value in enumerate(handed):
            if isinstance(value, torch.Tensor) and index < len(wanted) and wanted[index]:
                leaf = value.requires_grad_()
                handed[index] = leaf if isinstance(leaf, torch.nn.Parameter) else copy_in_graph(leaf)
        before = _snapshot(handed)
        try:
            outputs = tensors_in(function.apply(*handed))  # type: ignore[no-untyped-call]  # torch has no types here
        except Exception:  # the Function is someone else's code; its exceptions are told elsewhere
            return ()
        names = input_names(function, len(handed))
        found = [
            Mutation(phase="forward", what="input", name=names[index], index=index, declared=index in declared)
            for index in _changed(before, handed)
            if (index < len(wanted) and wanted[index]) or not _is_state(function, args, wanted, index, seed)
        ]
        return tuple(found + _in_backward(function, handed, outputs, names, seed))


def _in_backward(
    function: FunctionType, handed: list[Any], outputs: list[torch.Tensor], names: Sequence[str], seed: int
) -> list[Mutation]:
    outputs = [output for output in outputs if output.requires_grad]
    node = next((output.grad_fn for output in outputs if _is_node_of(function, output.grad_fn)), None)
    if node is None:
        return []
    generator = torch.Generator().manual_seed(seed)
    cotangents = [signed(output.shape, generator).to(output.device, output.dtype) for output in outputs]
    saved, parked = _saved(node)
    lent = {"input": handed, "cotangent": cotangents, "saved tensor": [*saved, *parked.values()]}
    labels = {
        "input": list(names),
        "cotangent": [f"cotangent {index}" if index else "cotangent" for index in range(len(cotangents))],
        "saved tensor": [_label(tensor, index, handed, names) for index, tensor in enumerate(saved)]
        + [f"ctx.{name}" for name in parked],
    }
    before = {what: _snapshot(values) for what, values in lent.items()}
    targets = [value for value in handed if isinstance(value, torch.Tensor) and value.requires_grad]
    try:
        torch.autograd.grad(outputs, targets, cotangents, allow_unused=True)
    except Exception:  # its exceptions are told elsewhere; what it changed until then counts
        pass
    found, told = [], set()
    for what in ("input", "cotangent", "saved tensor"):
        for index in _changed(before[what], lent[what]):
            place = lent[what][index].data_ptr()
            if place not in told:
                told.add(place)
                position = index if what != "saved tensor" or index < len(saved) else -1
                found.append(Mutation(phase="backward", what=what, name=labels[what][index], index=position))
    return found


def _is_node_of(function: FunctionType, node: Any) -> bool:
    return isinstance(node, BackwardCFunction) and getattr(node, "_forward_cls", None) is function


def _saved(node: Any) -> tuple[list[Any], dict[str, torch.Tensor]]:
    """What the node saved for its backward, and the tensors among its attributes."""
    try:
        saved = list(node.saved_tensors)
    except RuntimeError:  # changed in place since they were saved: torch says so itself, at the backward
        saved = []
    attributes = getattr(node, "__dict__", {})
    return saved, {name: value for name, value in attributes.items() if isinstance(value, torch.Tensor)}


def _label(tensor: Any, index: int, handed: list[Any], names: Sequence[str]) -> str:
    if isinstance(tensor, torch.Tensor):
        for name, value in zip(names, handed, strict=False):
            if isinstance(value, torch.Tensor) and value.data_ptr() == tensor.data_ptr():
                return name
    return f"saved_tensors[{index}]"


def _declared(function: FunctionType, args: Sequence[Any], wanted: Sequence[bool]) -> set[int]:
    """The indices of inputs that the forward marks dirty."""
    copied = list(bound_arguments(function, fresh_copy(args).args))
    try:
        with torch.no_grad():
            _, ctx = run_forward(function, copied, wanted)
    except Exception:  # called directly it may fail where the real call does not; then nothing is known to be declared
        return set()
    dirty = {id(tensor) for tensor in ctx.dirty_tensors}
    return {index for index, value in enumerate(copied) if id(value) in dirty}


def _is_state(function: FunctionType, args: Sequence[Any], wanted: Sequence[bool], index: int, seed: int) -> bool:
    """Do the outputs stay what they are when this input is another one?"""

    def outputs(moved: bool) -> list[torch.Tensor | None]:
        handed = fresh_copy(args).args
        if moved:
            value = handed[index]
            value.copy_(~value if value.dtype is torch.bool else value + 1)
        with quiet(HALF, seed), torch.no_grad():
            return _snapshot(tensors_in(run_forward(function, handed, wanted)[0]))

    try:
        return not _changed(outputs(moved=False), outputs(moved=True))
    except Exception:  # the forward may refuse what it was never meant for
        return False


def _snapshot(values: Sequence[Any]) -> list[torch.Tensor | None]:
    return [value.detach().clone() if isinstance(value, torch.Tensor) else None for value in values]


def _changed(before: Sequence[torch.Tensor | None], now: Sequence[Any]) -> list[int]:
    """The indices where values differ now (NaN equals NaN)."""
    return [
        index
        for index, (old, new) in enumerate(zip(before, now, strict=True))
        if old is not None and not _equal(old, new.detach())
    ]


def _equal(one: torch.Tensor, two: torch.Tensor) -> bool:
    if one.shape != two.shape or one.dtype != two.dtype:
        return False
    if one.layout is not torch.strided or is_expanded(one):
        one, two = one.to_dense() if one.is_sparse else one, two.to_dense() if two.is_sparse else two
    same = one == two
    if one.is_floating_point() or one.is_complex():
        same |= one.isnan() & two.isnan()
    return bool(same.all())
