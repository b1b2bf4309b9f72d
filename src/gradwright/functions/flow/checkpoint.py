"""Save memory: forget what a part of the network computed, and compute it again in the backward.

Source: Chen, Xu, Zhang, Guestrin 2016, Training Deep Nets with Sublinear Memory Cost (arXiv 1604.06174), section 4.1.
The gradient is the derivative: nothing is approximated. What changes is the cost, one more forward.

NOTE [checkpoint stands on torch's]
The recomputation itself is ``torch.utils.checkpoint(use_reentrant=False)``: nested use, hooks, early stop, double
backward, the autocast state and the comparison of metadata are right there and kept right by others. What it lets pass
in silence is added here, each shown by a test:

- a tensor in a keyword or inside a list, tuple or dict: torch looks for devices (whose random numbers to restore) and
  for later in-place changes among positional tensors only. Here every tensor of the tree is handed over so.
- a ``torch.Generator`` of the caller's: torch restores the default ones only, so a dropout drawn from another generator
  gets another mask in the backward.
- a module's parameters, changed between forward and backward (an optimizer's step): the recomputation would use the new
  ones. Without a checkpoint autograd raises; so does this. The same for a module set to ``eval()`` in between.
- a module's buffers: a recomputation would update the running statistics of a BatchNorm a second time, and take the
  power iteration of a spectral norm one step further, to another weight. Here it runs on copies of what they were.
- a function that gives other numbers of the same shape: compared on demand (``Checkpoint(..., compare="values")``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint as torch_checkpoint

from gradwright.errors import GradientError, UsageError
from gradwright.ground.held import call_with
from gradwright.ground.torch_versions import trees as pytree
from gradwright.ground.torch_versions.levels import (
    are_functorch_transforms_active,
    get_unwrapped,
    is_functorch_wrapped_tensor,
)
from gradwright.ground.torch_versions.tensors import version_of

__all__ = ["Checkpoint", "checkpoint"]

Compare: TypeAlias = Literal["metadata", "values"]

# Two runs of one function differ by rounding only: atomic additions on a GPU come in any order.
ROUNDING = 1e-6


def checkpoint(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """``fn(*args, **kwargs)``, of which nothing is kept but its arguments; the backward computes the rest again.

    ``fn``: a module, whose parameters and buffers are looked after (see NOTE [checkpoint stands on torch's]), or a
    function of its arguments and of what stays as it is until the backward. Any number of outputs, in any structure;
    arguments in tuples, lists and dicts, positional or by keyword; those that are no tensors are kept as they are.
    Random numbers are the same in the recomputation, of the default generators and of every ``torch.Generator`` among
    the arguments, and the generators are left where the outside has them.

    Shapes, dtypes, devices: those of ``fn``. Derivatives: all orders. Forward mode and vmap without gradients work;
    under ``torch.func.grad`` and its kin it raises (saved-tensor hooks don't exist there). A module with buffers is
    to be run by one thread at a time: for the recomputation it is lent others.
    Cost: one more forward, some 0.3 ms, and a copy of a module's buffers (kept: of its vectors, and of those that the
    forward changes).
    Raises: UsageError under torch.func's gradients, or for a module changed before the backward;
    ``torch.utils.checkpoint.CheckpointError`` if the recomputation saves other tensors (number, shape, dtype, device);
    RuntimeError, as autograd does, if an argument was changed in place.
    Source: Chen et al. 2016, section 4.1.

    >>> x = torch.ones(3, requires_grad=True)
    >>> checkpoint(lambda x: (x.exp().sin() * x).sum(), x).backward()
    >>> bool(torch.isclose(x.grad[0], torch.e * torch.cos(torch.tensor(torch.e)) + torch.sin(torch.tensor(torch.e))))
    True
    """
    return _checkpointed(fn, args, kwargs, (), "metadata")


class Checkpoint(nn.Module):
    """A module (or any callable) under ``checkpoint``, and its two options.

    ``generators``: further ``torch.Generator``s that it draws from. ``compare="values"``: the outputs of the
    recomputation are compared with the first ones by their sum and the sum of their sizes; costs the whole of the
    forward (otherwise the recomputation stops at the last tensor that is needed) and, on a GPU, a synchronisation.
    Raises: as ``checkpoint``; GradientError, if the values differ.

    >>> block = Checkpoint(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)))
    >>> block(torch.randn(2, 4)).sum().backward()
    >>> block.module[0].weight.grad.shape
    torch.Size([4, 4])
    """

    def __init__(
        self, module: Callable[..., Any], *, generators: Sequence[torch.Generator] = (), compare: Compare = "metadata"
    ) -> None:
        super().__init__()
        if compare not in ("metadata", "values"):
            raise UsageError(f'compare is "metadata" or "values", not {compare!r}')
        self.module = module
        self.generators = tuple(generators)
        self.compare: Compare = compare

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return _checkpointed(self.module, args, kwargs, self.generators, self.compare)

    def extra_repr(self) -> str:
        return f"compare={self.compare!r}"


def _checkpointed(
    fn: Callable[..., Any], args: Any, kwargs: Any, generators: Sequence[torch.Generator], compare: Compare
) -> Any:
    if torch.compiler.is_compiling():
        if generators or compare == "values":
            raise UsageError("a compiled checkpoint has no generators of its own and compares no values")
        return torch_checkpoint(fn, *args, use_reentrant=False, **kwargs)
    if not torch.is_grad_enabled():
        return fn(*args, **kwargs)
    leaves, structure = pytree.tree_flatten((args, kwargs))
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    tensors = [leaves[place] for place in places]
    if are_functorch_transforms_active():
        _refuse_gradients_of_func([*tensors, *(fn.parameters() if isinstance(fn, nn.Module) else ())])
        return fn(*args, **kwargs)  # nothing would be kept for a backward of these
    module = _Kept(fn) if isinstance(fn, nn.Module) else None
    owned = [leaf for leaf in leaves if isinstance(leaf, torch.Generator)]
    states = [(generator, generator.get_state()) for generator in (*generators, *owned)]
    rest = [None if isinstance(leaf, Tensor) else leaf for leaf in leaves]
    first: list[Tensor] | None = None

    def run(*given: Tensor) -> Any:
        nonlocal first, args, kwargs
        if first is None:  # with the caller's own lists and dicts: the recomputation gets others
            result = fn(*args, **kwargs)
            args = kwargs = None  # an outer checkpoint's tensors are to be forgotten
            first = _fingerprint(result) if compare == "values" else []
            if module is not None:
                module.look()
            return result
        filled = list(rest)
        for place, tensor in zip(places, given, strict=False):  # behind them: one tensor for each device of a module
            filled[place] = tensor
        again, by_name = pytree.tree_unflatten(filled, structure)
        with _rewound(states):
            result = fn(*again, **by_name) if module is None else module.again(again, by_name)
        if compare == "values":
            _compare(first, _fingerprint(result), fn)
        return result

    devices = [] if module is None else module.on_devices()
    return torch_checkpoint(run, *tensors, *devices, use_reentrant=False, early_stop=compare != "values")


def _refuse_gradients_of_func(tensors: Sequence[Tensor]) -> None:
    if any(_wants_gradient(tensor) for tensor in tensors):
        raise UsageError(
            "checkpoint can't recompute under torch.func.grad, vjp, jacrev, hessian or vmap with gradients.\n"
            "  why    it stands on saved-tensor hooks, which torch.func does not run\n"
            "  do     put the transform inside: checkpoint(torch.func.vmap(fn), x), or call fn itself here"
        )


def _wants_gradient(tensor: Tensor) -> bool:
    """At any level of torch.func's wrappers: inside vmap a tensor hides that the one below requires a gradient."""
    while not tensor.requires_grad and is_functorch_wrapped_tensor(tensor):
        tensor = get_unwrapped(tensor)
    return tensor.requires_grad


@contextmanager
def _rewound(states: Sequence[tuple[torch.Generator, Tensor]]) -> Iterator[None]:
    """Every generator as it was at the forward, and afterwards as the outside has it."""
    outside = [(generator, generator.get_state()) for generator, _ in states]
    try:
        for generator, state in states:
            generator.set_state(state)
        yield
    finally:
        for generator, state in outside:
            generator.set_state(state)


class _Kept:
    """A module as it was at the forward: the values of its buffers, the versions of its parameters, its modes."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.parameters = dict(module.named_parameters())
        self.wanted = [parameter.requires_grad for parameter in self.parameters.values()]
        self.buffers = {name: (buffer, version_of(buffer), buffer.clone()) for name, buffer in module.named_buffers()}
        self.versions: list[int] = []
        self.modes = self._modes()

    def look(self) -> None:
        """After the forward. A matrix that it left alone needs no copy; batch_norm writes its statistics, which are
        vectors, without telling their version."""
        now = dict(self.module.named_buffers())
        self.buffers = {
            name: (buffer, version, copy)
            for name, (buffer, version, copy) in self.buffers.items()
            if now.get(name) is not buffer or version_of(buffer) != version or buffer.dim() < 2
        }
        self.versions = self._versions()

    def on_devices(self) -> list[Tensor]:
        """One tensor without entries for each device but the CPU, that torch may see whose random state to keep."""
        found = {each.device: each for each in self.parameters.values() if each.device.type != "cpu"}
        return [parameter.new_empty(0) for parameter in found.values()]

    def again(self, args: Any, kwargs: Any) -> Any:
        if self._versions() != self.versions:
            self._refuse("a parameter was changed in place, as an optimizer's step does it")
        if self._modes() != self.modes:
            self._refuse("train() or eval() was called")
        instead = {name: copy.clone() for name, (_, _, copy) in self.buffers.items()}
        now = dict(self.module.named_parameters())
        for (name, parameter), wanted in zip(self.parameters.items(), self.wanted, strict=True):
            if parameter.requires_grad != wanted:  # frozen or thawed since, as the discriminator of a GAN
                instead[name] = parameter.detach().requires_grad_(wanted)
            elif now.get(name) is not parameter:  # the forward ran in a functional_call with parameters of its own
                instead[name] = parameter
        try:
            if not instead:
                return self.module(*args, **kwargs)
            return call_with(self.module, instead, args, kwargs)
        finally:  # an embedding with max_norm scales its weight on every look-up
            self.versions = self._versions()

    def _versions(self) -> list[int]:
        return [version_of(parameter) for parameter in self.parameters.values()]

    def _modes(self) -> list[bool]:
        return [module.training for module in self.module.modules()]

    def _refuse(self, what: str) -> None:
        raise UsageError(
            f"{type(self.module).__name__} under checkpoint was changed between its forward and its backward: {what}.\n"
            "  why    the backward computes the forward again, and would get another one\n"
            "  do     call backward first, or leave the checkpoint out"
        )


def _fingerprint(result: Any) -> list[Tensor]:
    """The sum and the sum of the sizes of every output, in float64."""
    values = [leaf.detach() for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor)]
    parts = [(torch.view_as_real(value) if value.is_complex() else value).double() for value in values]
    return [torch.stack([part.sum(), part.abs().sum()]) for part in parts]


def _compare(first: Sequence[Tensor], again: Sequence[Tensor], fn: Callable[..., Any]) -> None:
    for place, (one, two) in enumerate(zip(first, again, strict=True)):
        slack = ROUNDING * float(one[1].nan_to_num(0, 0, 0))
        if not torch.allclose(one, two, rtol=0, atol=slack, equal_nan=True):
            raise GradientError(
                f"checkpoint: the recomputation of {getattr(fn, '__name__', type(fn).__name__)} gave other values.\n"
                f"  what   output {place} summed to {float(one[0]):.6g} in the forward, to {float(two[0]):.6g} again\n"
                "  why    it depends on something that changed: a counter, a global, a generator that it draws from\n"
                "  do     hand it over as an argument, name the generator (generators=), or leave the checkpoint out"
            )
