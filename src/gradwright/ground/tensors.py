"""Copies of tensors that keep their layout, and trees of tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor


def copy_with_layout(tensor: Tensor) -> Tensor:
    """A detached copy with the same strides: expanded axes stay expanded, slices keep their gaps.

    Shapes, dtype, device, strides: those of ``tensor``.  Cost: one copy of the distinct elements (of the span, for a
    slice).  ``requires_grad`` is not kept.

    >>> copy_with_layout(torch.ones(3, 1).expand(3, 4)).stride()
    (1, 0)
    >>> copy_with_layout(torch.ones(4, 6)[:, ::2]).stride()
    (6, 2)
    """
    source = tensor.detach()
    if source.layout is not torch.strided:
        return source.clone()
    expanded = [axis for axis, (size, stride) in enumerate(zip(source.shape, source.stride(), strict=True))
                if stride == 0 and size > 1]  # fmt: skip
    if expanded:
        distinct = source
        for axis in expanded:
            distinct = distinct.narrow(axis, 0, 1)
        return copy_with_layout(distinct).expand(source.shape)
    copy = source.clone()
    if copy.stride() == source.stride():
        return copy
    return torch.empty_strided(source.shape, source.stride(), dtype=source.dtype, device=source.device).copy_(source)


def tensor_bytes(tensor: Tensor) -> int:
    """Bytes of the distinct elements: an expanded axis counts once."""
    count = 1
    if tensor.layout is not torch.strided:
        return tensor.numel() * tensor.element_size()
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        count *= 1 if stride == 0 and size > 0 else size
    return count * tensor.element_size()


def wait_for(tensors: Iterable[Tensor]) -> None:
    """Until the GPUs that they are on have nothing left to do: what was only queued so far has taken no time yet."""
    for device in {tensor.device for tensor in tensors if tensor.is_cuda}:
        torch.cuda.synchronize(device)


def is_being_captured(tensor: Tensor) -> bool:
    """Whether work on it would become part of a CUDA graph now, so that its values can't be looked at."""
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()


def tensors_in(tree: Any, depth: int = 4) -> Iterator[Tensor]:
    """Every tensor in nested lists, tuples and dicts."""
    if isinstance(tree, Tensor):
        yield tree
    elif depth and isinstance(tree, (list, tuple)):
        for item in tree:
            yield from tensors_in(item, depth - 1)
    elif depth and isinstance(tree, dict):
        for item in tree.values():
            yield from tensors_in(item, depth - 1)


def leaf_names(names: Iterable[str], trees: Iterable[Any]) -> Iterator[str]:
    """A name for every tensor in trees of these names, in the order of ``tensors_in``.

    >>> list(leaf_names(["x", "state"], [torch.ones(2), {"h": [torch.ones(1), 3]}]))
    ['x', "state['h'][0]"]
    """
    for name, item in zip(names, trees, strict=True):
        if isinstance(item, Tensor):
            yield name
        elif isinstance(item, dict):
            yield from leaf_names((f"{name}[{key!r}]" for key in item), item.values())
        elif isinstance(item, (list, tuple)):
            yield from leaf_names((f"{name}[{number}]" for number in range(len(item))), item)


def map_tensors(tree: Any, change: Callable[[Tensor], Any], depth: int = 4) -> Any:
    """The tree with each tensor replaced; other leaves are the same objects.

    >>> map_tensors({"a": [torch.ones(2), 3]}, lambda t: t.shape[0])
    {'a': [2, 3]}
    """
    if isinstance(tree, Tensor):
        return change(tree)
    if depth and isinstance(tree, tuple):
        items = [map_tensors(item, change, depth - 1) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else tuple(items)
    if depth and isinstance(tree, list):
        return [map_tensors(item, change, depth - 1) for item in tree]
    if depth and type(tree) is dict:
        return {key: map_tensors(item, change, depth - 1) for key, item in tree.items()}
    return tree


def storage_of(tensor: Tensor) -> int:
    """A number that tensors share which share memory; 0 for a tensor without any (empty, sparse, some subclasses)."""
    if tensor.layout is not torch.strided or not tensor.numel():
        return 0
    try:
        return int(tensor.untyped_storage().data_ptr())
    except (NotImplementedError, RuntimeError):  # a subclass without storage
        return 0


def differentiable(value: Any) -> bool:
    """Whether it is a tensor that a gradient may be taken of."""
    return isinstance(value, Tensor) and value.requires_grad
