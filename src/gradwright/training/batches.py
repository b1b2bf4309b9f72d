"""Trees of tensors that a loader yields: how many samples one holds, and how it is cut into micro-batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from gradwright.errors import UsageError


def tensors_of(batch: Any, place: str = "batch") -> Iterator[tuple[str, Tensor]]:
    """The tensors of a tree of tuples, lists, mappings and dataclasses, each with the place where it stands."""
    if isinstance(batch, Tensor):
        yield place, batch
    elif isinstance(batch, Mapping):
        for key, value in batch.items():
            yield from tensors_of(value, f"{place}[{key!r}]")
    elif isinstance(batch, (tuple, list)):
        for index, value in enumerate(batch):
            yield from tensors_of(value, f"{place}[{index}]")
    elif dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        for field in dataclasses.fields(batch):
            yield from tensors_of(getattr(batch, field.name), f"{place}.{field.name}")


def sample_count(batch: Any) -> int:
    """The first dimension of its tensors. Raises: UsageError, where they have none, or not the same."""
    sizes = {place: tensor.shape[0] for place, tensor in tensors_of(batch) if tensor.dim()}
    if not sizes:
        raise UsageError(
            f"a batch of type {type(batch).__name__} holds no tensor with a first dimension, so its samples can't be "
            "counted: make its arrays tensors, or say count= (and split=, where it is cut by micro_batch_size=)"
        )
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{place} has {size}" for place, size in list(sizes.items())[:4])
        raise UsageError(f"the tensors of a batch differ in their first dimension ({told}): say count= and split=")
    return next(iter(sizes.values()))


def cut(batch: Any, size: int) -> list[Any]:
    """Pieces of ``size`` samples, the last one maybe shorter; views, no copies. A batch of no samples stays whole.

    Raises: UsageError, where the tensors differ in their first dimension.
    """
    samples = sample_count(batch)
    starts = range(0, max(samples, 1), size)
    return [rebuilt(batch, _piece(start, size, samples)) for start in starts]


def _piece(start: int, size: int, samples: int) -> Callable[[Any], Any]:
    def piece(leaf: Any) -> Any:
        if isinstance(leaf, Tensor):
            return leaf.narrow(0, start, min(size, samples - start)) if leaf.dim() else leaf
        return leaf[start : start + size] if len(leaf) == samples else leaf

    return piece


def rebuilt(batch: Any, piece: Callable[[Any], Any]) -> Any:
    """The same tree, of pieces. A list of what holds no tensor (texts, ids) is cut where it is as long as the batch."""
    if isinstance(batch, Tensor):
        return piece(batch)
    if isinstance(batch, Mapping):
        items = {key: rebuilt(value, piece) for key, value in batch.items()}
        return items if type(batch) is dict else _like(batch, items)
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(rebuilt(value, piece) for value in batch))
    if isinstance(batch, (tuple, list)):
        if batch and not any(True for _ in tensors_of(batch)) and not isinstance(batch[0], (tuple, list, Mapping)):
            return piece(batch)
        return type(batch)(rebuilt(value, piece) for value in batch)
    if dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        fields = {field.name: rebuilt(getattr(batch, field.name), piece) for field in dataclasses.fields(batch)}
        return dataclasses.replace(batch, **fields)
    return batch


def _like(batch: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """A mapping of the same class (transformers' BatchEncoding takes a dict as well)."""
    try:
        return type(batch)(items)  # type: ignore[call-arg]
    except TypeError:
        return items


def any_device(batch: Any) -> torch.device:
    """Where the tensors of a batch live; the CPU without any."""
    return next((tensor.device for _, tensor in tensors_of(batch)), torch.device("cpu"))
