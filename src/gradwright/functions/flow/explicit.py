"""A callable whose every tensor is an argument: what an implicit gradient or an adjoint can be sure to have seen.

The backward of a fixed point, or of a simulation, does not follow autograd's graph of the forward: it differentiates
the user's function again, by the tensors it knows. A tensor that the function takes from elsewhere (a closure, a
global, an attribute) would get no gradient, without a word. So a module's parameters are looked for and become
arguments, and any other tensor that needs a gradient and is no argument is found by running the function once, and
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from gradwright.errors import UsageError
from gradwright.functions.flow.strangers import Strangers, has_other_roots, leaf_of, modules_of, stranger
from gradwright.ground.held import Held
from gradwright.ground.torch_versions import trees as pytree
from gradwright.ground.torch_versions.levels import (
    are_functorch_transforms_active,
    get_unwrapped,
    is_functorch_wrapped_tensor,
    set_forward_grad_enabled,
)
from gradwright.ground.torch_versions.modes import DisableTorchFunction
from gradwright.ground.torch_versions.tensors import version_of

Leaves: TypeAlias = tuple[Tensor, ...]
Call: TypeAlias = Callable[..., Leaves]


class Explicit:
    """``call(state, tensors, *between)``: ``function(state, *between, *args)`` with every tensor handed over.

    ``state``: the tensors of the state; ``tensors``: those of the arguments, then the parameters of every module that
    is found (the function itself, what it is bound to, what it names in its closure, its globals or its arguments).
    ``call`` returns the tensors of a state of the same structure, shapes and dtypes. It leaves the modules' buffers
    alone: it works on copies of them (``on_buffers=True``: on themselves), and under the autocast it was made under.
    """

    def __init__(self, function: Callable[..., Any], state: Any, args: Sequence[Any], *, name: str) -> None:
        self.function, self.name = function, name
        leaves, self.spec = pytree.tree_flatten(state)
        self._rest, self._args = pytree.tree_flatten(tuple(args))
        self._places = [place for place, leaf in enumerate(self._rest) if isinstance(leaf, Tensor)]
        modules = [*modules_of(function), *(leaf for leaf in self._rest if isinstance(leaf, nn.Module))]
        self._held = Held(modules)
        self._buffers: Leaves | None = None  # copies, once they are needed
        for place in self._places:
            self._rest[place] = None
        self._autocast = [_Autocast.now(device) for device in sorted({leaf.device.type for leaf in leaves})]

    @classmethod
    def of(
        cls, function: Callable[..., Any], state: Any, args: Sequence[Any], *, name: str
    ) -> tuple[Explicit, Leaves, Leaves]:
        """Itself, the tensors of the state, and the other tensors; it holds on to none of them."""
        if not callable(function):
            raise UsageError(f"{name} needs a callable or a module, not {type(function).__name__}")
        leaves = tuple(_state_leaf(leaf, name) for leaf in pytree.tree_leaves(state))
        if not leaves:
            raise UsageError(f"{name}: the state holds no tensor")
        program = cls(function, state, args, name=name)
        given = [leaf for leaf in pytree.tree_leaves(tuple(args)) if isinstance(leaf, Tensor)]
        return program, leaves, (*given, *program._held.tensors())

    def call(self, state: Leaves, tensors: Leaves, *between: Any, on_buffers: bool = False) -> Leaves:
        rest = list(self._rest)
        for place, tensor in zip(self._places, tensors, strict=False):
            rest[place] = tensor
        args = pytree.tree_unflatten(rest, self._args)
        if self._buffers is None and not on_buffers:
            self._buffers = self._held.copied_buffers()
        versions = _versions((*state, *tensors))
        with ExitStack() as stack:
            for autocast in self._autocast:
                autocast.enter(stack)
            stack.enter_context(self._held.lent(tensors[len(self._places) :], None if on_buffers else self._buffers))
            result = self.function(self.tree(state), *between, *args)
        if versions != _versions((*state, *tensors)):
            raise UsageError(
                f"{self.name}: the function changes its state, or an argument, in place\n"
                "  why    the backward needs them as they were, and the caller's own tensors would be overwritten\n"
                "  do     return a new state: x = x + dt * v, not x += dt * v"
            )
        return self._checked(result, state)

    def tree(self, state: Sequence[Tensor]) -> Any:
        """The state in the user's structure."""
        return pytree.tree_unflatten(list(state), self.spec)

    def refuse_strangers(self, state: Leaves, tensors: Leaves, *between: Any, **options: Any) -> None:
        """Call the function once; raise if a derivative would be missed: of a tensor that it uses and was not handed.

        To be called inside a Function's forward, where the tensors that are handed have no graph and no tangent; under
        torch.func outside of it, where they all have their wrappers.
        """
        if are_functorch_transforms_active():
            with Strangers((*state, *tensors)) as watch:
                self.call(state, tensors, *between, **options)
            missed = watch.found is not None
        else:
            state, tensors = (tuple(leaf_of(tensor) for tensor in tensors) for tensors in (state, tensors))
            with torch.enable_grad(), set_forward_grad_enabled(True):
                missed = has_other_roots(self.call(state, tensors, *between, **options), (*state, *tensors))
        if missed:
            raise stranger(self.name, self.function)

    def _checked(self, result: Any, state: Leaves) -> Leaves:
        leaves, spec = pytree.tree_flatten(result)
        if spec != self.spec or not all(isinstance(leaf, Tensor) for leaf in leaves):
            raise UsageError(
                f"{self.name}: the function's result is no state\n"
                f"  what   it returned {_shown(result)}; the state is {_shown(self.tree(state))}\n"
                "  do     return the next state, in the structure of the one that was given"
            )
        automatic = any(autocast.enabled for autocast in self._autocast)
        checked = [leaf.to(old.dtype) if automatic else leaf for leaf, old in zip(leaves, state, strict=True)]
        for leaf, old in zip(checked, state, strict=True):
            if leaf.shape != old.shape or leaf.dtype != old.dtype:
                raise UsageError(
                    f"{self.name}: the function changes the state's shape or dtype\n"
                    f"  what   {_shown(old)} became {_shown(leaf)}\n"
                    "  do     return a state like the one that was given"
                )
        return tuple(checked)


def under_vmap(call: Call, dims: tuple[int | None, ...], randomness: str) -> Call:
    """``call`` with a batch axis in front of its state, and in front of those tensors whose ``dims`` is 0."""

    def batched(state: Leaves, tensors: Leaves, *between: Any, **options: Any) -> Leaves:
        def one(state: Leaves, tensors: Leaves) -> Leaves:
            return call(state, tensors, *between, **options)

        result: Leaves = torch.func.vmap(one, in_dims=(0, dims), randomness=randomness)(state, tensors)
        return result

    return batched


def batch_first(
    count: int, batch_size: int, in_dims: Sequence[int | None], tensors: Sequence[Tensor]
) -> tuple[Leaves, tuple[int | None, ...]]:
    """Tensors with vmap's axis in front, the first ``count`` expanded to have one; and its place in the rest."""
    moved = [tensor if dim is None else tensor.movedim(dim, 0) for tensor, dim in zip(tensors, in_dims, strict=True)]
    for place in range(count):
        if in_dims[place] is None:
            moved[place] = moved[place].expand(batch_size, *moved[place].shape)
    return tuple(moved), tuple(None if dim is None else 0 for dim in in_dims[count:])


def refuse_unknown(owner: str, options: Mapping[str, Any], allowed: Sequence[str]) -> None:
    """Raise for an option that ``owner`` doesn't have."""
    for name in options:
        if name not in allowed:
            raise UsageError(f"{owner} has no option {name!r}\n  do     use one of {', '.join(allowed)}")


@dataclass(frozen=True)
class _Autocast:
    """The state of autocast on one device, to be had again in the backward."""

    device: str
    enabled: bool
    dtype: torch.dtype

    @classmethod
    def now(cls, device: str) -> _Autocast:
        if not torch.amp.is_autocast_available(device):
            return cls(device, False, torch.float32)
        return cls(device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))

    def enter(self, stack: ExitStack) -> None:
        """Without its cache of weights: one that is filled without a graph would be used with one."""
        if self.enabled or (torch.amp.is_autocast_available(self.device) and torch.is_autocast_enabled(self.device)):
            stack.enter_context(
                torch.autocast(self.device, dtype=self.dtype, enabled=self.enabled, cache_enabled=False)
            )


def _versions(tensors: Sequence[Tensor]) -> list[int]:
    """How often each was written to, inside its wrappers too; inference tensors don't count."""
    counts = []
    with DisableTorchFunction():
        for tensor in tensors:
            counts.append(0 if tensor.is_inference() else version_of(tensor))
            while is_functorch_wrapped_tensor(tensor):
                tensor = get_unwrapped(tensor)
                counts.append(0 if tensor.is_inference() else version_of(tensor))
    return counts


def _state_leaf(leaf: Any, name: str) -> Tensor:
    if isinstance(leaf, Tensor) and leaf.is_floating_point() and leaf.layout is torch.strided:
        return leaf
    raise UsageError(
        f"{name}: a state is a dense floating-point tensor, or a tuple, list or dict of them\n"
        f"  what   it holds {_shown(leaf)}\n"
        "  do     hand other values over as arguments; write a complex state as its real and imaginary part"
    )


def _shown(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__} of {', '.join(_shown(item) for item in value) or 'nothing'}"
    if isinstance(value, dict):
        return "dict of " + ", ".join(f"{key!r}: {_shown(item)}" for key, item in value.items())
    return type(value).__name__
