"""Specimens: detached copies of real inputs, one per signature, first calls first, within a bound of memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gradwright.doctor.observed import Kept
from gradwright.doctor.process_group import note_process_group
from gradwright.doctor.session.model import NotExamined, Specimen, TensorSpec
from gradwright.ground.tensors import copy_with_layout, map_tensors, storage_of, tensor_bytes, tensors_in

PER_SUBJECT = 8
DEFAULT_BYTES = 1 << 30


def spec_of(name: str, tensor: Tensor) -> TensorSpec:
    return TensorSpec(
        name=name,
        shape=tuple(tensor.shape),
        dtype=str(tensor.dtype).removeprefix("torch."),
        stride=tuple(tensor.stride()) if tensor.layout is torch.strided else (),
        device=str(tensor.device),
        requires_grad=tensor.requires_grad,
    )


def signature(args: Sequence[Any]) -> tuple[Any, ...]:
    """Shapes, dtypes, strides, devices and requires_grad of the tensors; the type of everything else."""
    parts: list[Any] = []
    for arg in args:
        if isinstance(arg, Tensor):
            strided = arg.layout is torch.strided
            parts.append((arg.shape, arg.dtype, arg.stride() if strided else None, arg.requires_grad, arg.device))
        elif isinstance(arg, (list, tuple)):
            parts.append(signature(arg))
        else:
            parts.append(type(arg))
    return tuple(parts)


class SpecimenStore:
    """All specimens of a run. Keeping one costs a copy of its tensors; a signature already seen costs a look-up."""

    def __init__(self, max_bytes: int = DEFAULT_BYTES, per_subject: int = PER_SUBJECT) -> None:
        self.max_bytes, self.per_subject = max_bytes, per_subject
        self.bytes = 0
        self._seen: dict[str, dict[Any, Kept | None]] = {}
        self._made: dict[str, int] = {}
        self._dropped: dict[str, int] = {}

    def of(self, subject: str) -> list[Kept]:
        return [kept for kept in self._seen.get(subject, {}).values() if kept is not None]

    def offer(
        self, subject: str, call: int, args: Sequence[Any], names: Callable[[], Sequence[str]], wanted: Sequence[bool]
    ) -> Kept | None:
        """Keep copies of ``args`` if their signature is new; the kept specimen if this call made one."""
        seen = self._seen.setdefault(subject, {})
        try:
            mark = signature(args)
            if mark in seen:
                return None
        except TypeError:  # a tensor subclass whose strides or devices do not hash
            return None
        if len(seen) >= self.per_subject:
            self._dropped[subject] = self._dropped.get(subject, 0) + 1
            return None
        size = sum(tensor_bytes(tensor) for tensor in tensors_in(tuple(args)))
        if self.bytes + size > self.max_bytes:
            seen[mark] = None
            self._dropped[subject] = self._dropped.get(subject, 0) + 1
            return None
        opaque = any(_is_opaque(arg) for arg in args)
        with torch.no_grad():
            # An object that is handed over may hold the very parameters that are handed over beside it (adjoint solvers
            # do): then the parameters themselves are kept, so that whoever copies the specimen copies both as one.
            copies = tuple(map_tensors(arg, lambda t: t if opaque and t.is_leaf and t.requires_grad else copy(t))
                           for arg in args)  # fmt: skip
        self.bytes += size
        specs = [
            spec_of(name if count == 1 else f"{name}[{index}]", tensor)
            for name, arg in zip(names(), args, strict=False)
            for count in [sum(1 for _ in tensors_in(arg))]
            for index, tensor in enumerate(tensors_in(arg))
        ]
        note_process_group()
        number = max(self._made.get(subject, 0), len(seen))
        self._made[subject] = number + 1
        kept = Kept(Specimen(f"{subject}#{number}", subject, call, tuple(specs), size), copies, tuple(wanted))
        seen[mark] = kept
        return kept

    def withdraw(self, kept: Kept) -> None:
        """It was no specimen after all; its number is not given away again."""
        seen = self._seen.get(kept.about.subject, {})
        mark = next((mark for mark, one in seen.items() if one is kept), None)
        if mark is not None:
            del seen[mark]
            self.bytes -= kept.about.bytes + sum(tensor_bytes(tensor) for tensor in tensors_in(kept.cotangents))

    def keep_cotangents(self, kept: Kept, cotangents: Sequence[Any]) -> None:
        """The real cotangents of that call, with their strides."""
        size = sum(tensor_bytes(tensor) for tensor in tensors_in(tuple(cotangents)))
        if kept.cotangents is not None or self.bytes + size > self.max_bytes:
            return
        self.bytes += size
        kept.cotangents = tuple(copy(item) if isinstance(item, Tensor) else None for item in cotangents)

    def descriptions(self) -> list[Specimen]:
        return [kept.about for subject in self._seen for kept in self.of(subject)]

    def not_examined(self) -> list[NotExamined]:
        return [
            NotExamined(
                f"{count} further call{'s' if count > 1 else ''} of {subject.split(':')[1].split('@')[0]}",
                f"their signatures are not among the first {self.per_subject}, or the bound of "
                f"{self.max_bytes >> 20} MiB for specimens was reached",
            )
            for subject, count in self._dropped.items()
        ]


def copy(tensor: Tensor) -> Tensor:
    """A detached copy with layout and ``requires_grad`` as they were."""
    return copy_with_layout(tensor).requires_grad_(tensor.requires_grad)


def copy_names(names: dict[str, Any]) -> dict[str, Any]:
    """Variables with copies of the tensors among them and inside them; tensors that share memory still do."""
    owners: dict[int, list[Tensor]] = {}
    for tensor in {id(tensor): tensor for value in names.values() for tensor in tensors_in(value)}.values():
        owners.setdefault(storage_of(tensor), []).append(tensor)
    copies: dict[int, Tensor] = {}
    with torch.no_grad():
        for place, sharing in owners.items():
            storage = sharing[0].untyped_storage().clone() if place and len(sharing) > 1 else None  # type: ignore[no-untyped-call]  # torch's own
            for tensor in sharing:
                mine = copy(tensor) if storage is None else _view_of(storage, tensor)
                copies[id(tensor)] = mine
        return {name: map_tensors(value, lambda tensor: copies[id(tensor)]) for name, value in names.items()}


def _view_of(storage: torch.UntypedStorage, tensor: Tensor) -> Tensor:
    fresh = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    fresh.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())
    return fresh.requires_grad_(tensor.requires_grad)


def _is_opaque(arg: Any) -> bool:
    plain = (Tensor, int, float, complex, str, bytes, bool, type(None), torch.dtype, torch.device, torch.Size)
    if isinstance(arg, (list, tuple)):
        return any(_is_opaque(item) for item in arg)
    return not isinstance(arg, plain)
