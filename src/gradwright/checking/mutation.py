"""Does a call change what it was only lent? By value, since writes through ``.data`` evade version counters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from gradwright.checking.chance import signed
from gradwright.checking.context import FunctionType, bound_arguments, input_names, is_function, run_forward
from gradwright.checking.copies import fresh_copy
from gradwright.checking.enginecall import CustomNode, call, custom_nodes, draw_cotangents, hand_out, receiving
from gradwright.checking.lent import Change, Lent, equal, place_of
from gradwright.checking.trial import HALF, quiet, tensors_in
from gradwright.checking.verdict import Mutation
from gradwright.ground.hooks import OnTheGraph


def find_mutations(
    function: FunctionType, args: Sequence[Any], wanted: Sequence[bool], *, seed: int = 0
) -> tuple[Mutation, ...]:
    """Inputs, cotangents and saved tensors whose values forward or backward changed, in one real call.

    ``args`` stay as they are. A backward that raises is no hindrance: what it changed until then is told. Raises
    nothing; a forward that raises has no mutations. An input that requires no gradient and that the outputs don't
    depend on is a state which the forward keeps (running statistics, a counter): its change is no mutation; nor is that
    of an attribute which the backward has taken off its ctx. Cost: one forward, one backward, a copy of every tensor;
    where an input changed, a few forwards more.
    """
    asked = [index for index, want in enumerate(wanted) if want and isinstance(args[index], Tensor)]
    return tuple(change.mutation for change in find_changes(function, args, asked, seed=seed))


def find_changes(
    subject: Any,
    args: Sequence[Any],
    wanted: Sequence[int],
    *,
    seed: int = 0,
    names: Sequence[str] | None = None,
    used: Sequence[bool] | None = None,
) -> list[Change]:
    """``find_mutations`` of any subject: of a callable, every custom Function in its graph is watched.

    ``wanted``: the positions that require a gradient. ``used``: as for ``Problem.outputs``.
    """
    with quiet(HALF, seed), torch.enable_grad():
        handed = hand_out(args, wanted)
        lent = Lent.of_arguments(handed.args, names or input_names(subject, len(handed.args)))
        try:
            outputs = receiving(subject, call(subject, handed.args), used)
        except Exception:  # the subject is someone else's code; its exceptions are told elsewhere
            return []
        found = [
            change
            for change in lent.changes("forward", "input")
            if not _is_state(subject, args, change.mutation.index, seed)
        ]
        if found and is_function(subject):
            found = _with_declared(found, _declared(subject, args, wanted))
        return found + _in_backward(outputs, list(handed.targets.values()), lent, seed)


# --- the backward ----------------------------------------------------------------------------------------------------


def _in_backward(outputs: list[Tensor], targets: list[Tensor], arguments: Lent, seed: int) -> list[Change]:
    """What one backward changes: arguments, cotangents on their way through custom nodes, outputs, what nodes saved."""
    nodes = custom_nodes(outputs)
    if not nodes:
        return []  # torch's own backwards change nothing
    arguments.refresh()
    results, saved = Lent(), Lent()
    for index, output in enumerate(outputs):
        results.add(index, f"output {index}" if index else "output", output)
    for item in nodes:
        _add_saved(saved, item, prefix="" if len(nodes) == 1 else f"{item.name}.")
    watches = [_Watch(item) for item in nodes]
    try:
        torch.autograd.grad(outputs, targets, draw_cotangents(outputs, seed), allow_unused=True)
    except Exception:  # its exceptions are told elsewhere; what it changed until then counts
        pass
    found = list(arguments.changes("backward", "input"))
    for watch in watches:
        found += watch.end()
    found += results.changes("backward", "saved tensor")
    held = {place_of(tensor) for item in nodes for _, tensor in _attributes(item)}
    for change in saved.changes("backward", "saved tensor", kept=True):
        if change.mutation.index >= 0 or change.place in held:  # else taken off: nobody reads it again
            found.append(change)
    return list({change.place: change for change in reversed(found)}.values())[::-1]


class _Watch:
    """Hooks on one node, which compare its cotangents before and after its backward."""

    def __init__(self, item: CustomNode) -> None:
        self.item, self.changes, self.lent = item, list[Change](), Lent()
        handles = (item.node.register_prehook(self._before), item.node.register_hook(self._after))
        self.hooks = [OnTheGraph(handle) for handle in handles]

    def _before(self, cotangents: Sequence[Tensor | None]) -> None:
        for index, cotangent in enumerate(cotangents):
            if cotangent is not None:
                self.lent.add(index, f"cotangent {index}" if index else "cotangent", cotangent)

    def _after(self, gradients: Any, cotangents: Any) -> None:
        self.changes = list(self.lent.changes("backward", "cotangent", function=self.item.name))
        self.lent = Lent()

    def end(self) -> list[Change]:
        """What was found; of a backward that raised, what it had changed until then."""
        for hook in self.hooks:
            hook.remove()
        return self.changes + list(self.lent.changes("backward", "cotangent", function=self.item.name))


def _add_saved(saved: Lent, item: CustomNode, prefix: str) -> None:
    """What the node saved for its backward, and the tensors among its attributes."""
    try:
        kept = list(item.node.saved_tensors)
    except RuntimeError:  # changed in place since they were saved: torch says so itself, at the backward
        kept = []
    for index, tensor in enumerate(kept):
        if isinstance(tensor, Tensor):
            saved.add(index, f"{prefix}saved_tensors[{index}]", tensor)
    for name, tensor in _attributes(item):
        saved.add(-1, f"{prefix}ctx.{name}", tensor)


def _attributes(item: CustomNode) -> list[tuple[str, Tensor]]:
    return [
        (name, tensor) for name, value in getattr(item.node, "__dict__", {}).items() for tensor in tensors_in(value)
    ]


def second_backward_differs(
    subject: Any, args: Sequence[Any], wanted: Sequence[int], *, seed: int = 0, used: Sequence[bool] | None = None
) -> bool:
    """Does the same backward, run again under ``retain_graph``, return other gradients?

    What a backward writes into tensors of its own is a scratchpad as long as it does not. Cost: one forward, two
    backwards.
    """
    with quiet(HALF, seed), torch.enable_grad():
        handed = hand_out(args, wanted)
        outputs = receiving(subject, call(subject, handed.args), used)
        targets = list(handed.targets.values())
        cotangents = draw_cotangents(outputs, seed)

        def gradients() -> list[Tensor | None]:
            given = [cotangent.clone() for cotangent in cotangents]
            found = torch.autograd.grad(outputs, targets, given, retain_graph=True, allow_unused=True)
            return [None if gradient is None else gradient.clone() for gradient in found]

        try:
            return not all(
                (one is None and two is None) or (one is not None and two is not None and _close(one, two))
                for one, two in zip(gradients(), gradients(), strict=True)
            )
        except Exception:  # one that refuses to run twice says so itself
            return False


def _close(one: Tensor, two: Tensor) -> bool:
    """Equal but for the order in which atomics add."""
    eps = torch.finfo(one.dtype).eps
    dense = [tensor.to_dense() if tensor.layout is not torch.strided else tensor for tensor in (one, two)]
    return torch.allclose(dense[0], dense[1], rtol=64 * eps, atol=64 * eps, equal_nan=True)


# --- what may be changed ---------------------------------------------------------------------------------------------


def _with_declared(found: list[Change], declared: set[int]) -> list[Change]:
    return [
        replace(change, mutation=replace(change.mutation, declared=change.mutation.index in declared))
        for change in found
    ]


def _declared(function: FunctionType, args: Sequence[Any], wanted: Sequence[int]) -> set[int]:
    """The indices of inputs that the forward marks dirty."""
    copied = list(bound_arguments(function, fresh_copy(args).args))
    try:
        with torch.no_grad():
            _, ctx = run_forward(function, copied, [index in wanted for index in range(len(copied))])
    except Exception:  # called directly it may fail where the real call does not; then nothing is known to be declared
        return set()
    dirty = {id(tensor) for tensor in ctx.dirty_tensors}
    return {index for index, value in enumerate(copied) if id(value) in dirty}


def _is_state(subject: Any, args: Sequence[Any], index: int, seed: int) -> bool:
    """Do the outputs stay what they are when this input, for which nobody asked a gradient, is another one?"""
    if isinstance(args[index], Tensor) and args[index].requires_grad:
        return False

    def outputs(moved: bool) -> list[Tensor]:
        handed = fresh_copy(args).args
        for value in tensors_in(handed[index]) if moved else []:
            value.copy_(_another(value, seed))
        with quiet(HALF, seed), torch.no_grad():
            return [output.clone() for output in tensors_in(call(subject, handed))]

    try:
        return all(equal(one, two) for one, two in zip(outputs(moved=False), outputs(moved=True), strict=True))
    except Exception:  # the forward may refuse what it was never meant for
        return False


def _another(value: Tensor, seed: int) -> Tensor:
    """Other values; not all shifted alike, which a softmax would not see."""
    if value.dtype is torch.bool:
        return ~value
    if not (value.is_floating_point() or value.is_complex()):
        return value + 1
    generator = torch.Generator().manual_seed(seed)
    return value + signed(value.shape, generator).to(value.device, value.dtype)
