"""The parameters and buffers of modules, put aside for other tensors during a call.

Not ``torch.func.functional_call``: where one module stands in two places of another, that leaves it with the tensors it
was lent (torch 2.13: it restores twice, the second time what it put there itself). Here each place is met once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from torch import Tensor, nn

from gradwright.ground.torch_versions.modules import own_buffers, own_parameters

Slot: TypeAlias = tuple[dict[str, Any], str, int]  # a module's own dictionary, the key there, the number of the tensor


class Held:
    """``modules`` and all in them. Threads that share a module must not swap at the same time."""

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        parameters: dict[int, int] = {}
        buffers: dict[int, int] = {}
        self.parameters: list[Slot] = []
        self.buffers: list[Slot] = []
        for module in dict.fromkeys(inner for each in modules for inner in each.modules()):
            for store in (own_parameters(module), own_buffers(module)):
                for key, tensor in store.items():
                    if tensor is None:
                        continue
                    learnt = store is own_parameters(module) or tensor.requires_grad
                    numbers, slots = (parameters, self.parameters) if learnt else (buffers, self.buffers)
                    slots.append((store, key, numbers.setdefault(id(tensor), len(numbers))))

    def tensors(self) -> tuple[Tensor, ...]:
        """The parameters, and buffers that need a gradient, each once."""
        return _distinct(self.parameters)

    def copied_buffers(self) -> tuple[Tensor, ...]:
        return tuple(buffer.detach().clone() for buffer in _distinct(self.buffers))

    @contextmanager
    def lent(self, parameters: Sequence[Tensor], buffers: Sequence[Tensor] | None) -> Iterator[None]:
        """Inside, the modules use these tensors; ``None``: their own buffers."""
        places = [(store, key, parameters[number]) for store, key, number in self.parameters]
        if buffers is not None:
            places += [(store, key, buffers[number]) for store, key, number in self.buffers]
        with _put(places):
            yield


def call_with(module: nn.Module, tensors: Mapping[str, Tensor], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """``module(*args, **kwargs)`` with ``tensors`` in place of its own of these names, wherever those stand in it.

    What the module holds is afterwards what it held before. Raises: KeyError, for a name that it does not have.
    """
    own: dict[str, Tensor] = dict(module.named_parameters(remove_duplicate=False))
    own |= dict(module.named_buffers(remove_duplicate=False))
    instead = {id(own[name]): tensor for name, tensor in tensors.items()}
    stores = [store for inner in module.modules() for store in (own_parameters(inner), own_buffers(inner))]
    with _put(
        [(store, key, instead[id(held)]) for store in stores for key, held in store.items() if id(held) in instead]
    ):
        return module(*args, **kwargs)


@contextmanager
def _put(places: Sequence[tuple[dict[str, Any], str, Tensor]]) -> Iterator[None]:
    own = [(store, key, store[key]) for store, key, tensor in places if store[key] is not tensor]
    for store, key, tensor in places:
        store[key] = tensor
    try:
        yield
    finally:
        for store, key, tensor in own:
            store[key] = tensor


def _distinct(slots: Sequence[Slot]) -> tuple[Tensor, ...]:
    return tuple({number: store[key] for store, key, number in slots}.values())
