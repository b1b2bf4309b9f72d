"""The forward's own names: what its local variables were called when it returned."""

from __future__ import annotations

import contextlib
import functools
from types import CodeType, FrameType
from typing import Any

import torch

from gradwright.functions.derive.refuse import is_users


def code_of(forward: Any) -> CodeType | None:
    """The code that runs when ``forward`` is called, as far as it is Python of its author."""
    while isinstance(forward, functools.partial):
        forward = forward.func
    while hasattr(forward, "__wrapped__"):
        forward = forward.__wrapped__
    if isinstance(forward, torch.nn.Module):
        forward = forward.forward
    found = getattr(getattr(forward, "__func__", forward), "__code__", None)
    return found if isinstance(found, CodeType) else None


class Locals:
    """What the forward's local variables are called, looked up whenever it calls a torch function.

    ``tensors``: by id, the name and the tensor; of several names the first, and that of the outermost function.
    """

    def __init__(self, forward: Any) -> None:
        self.code = code_of(forward)
        self.tensors: dict[int, tuple[str, torch.Tensor]] = {}

    def look(self, frame: FrameType | None) -> None:
        """Take the names from a frame and from those that called it."""
        frames = []
        while frame is not None:
            if frame.f_code is self.code or is_users(frame.f_code.co_filename):
                frames.append(frame)
            if frame.f_code is self.code:
                break
            frame = frame.f_back
        else:
            return  # not called by the forward
        for found in reversed(frames):
            for name, value in found.f_locals.items():
                if isinstance(value, torch.Tensor) and not name.startswith("_"):
                    self.tensors.setdefault(id(value), (name, value))


class Outside:
    """What a forward's free names mean: tensors from its closure and its module."""

    def __init__(self, forward: Any) -> None:
        while hasattr(forward, "__wrapped__"):
            forward = forward.__wrapped__
        self.tensors: dict[int, str] = {}
        code = code_of(forward)
        if code is None or not hasattr(forward, "__globals__"):
            return
        values = {name: forward.__globals__.get(name) for name in code.co_names}
        for name, cell in zip(code.co_freevars, forward.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # an empty cell
                values[name] = cell.cell_contents
        self.tensors = {id(value): name for name, value in values.items() if isinstance(value, torch.Tensor)}

    def name_of(self, tensor: torch.Tensor) -> str:
        """The forward's name for a tensor from outside; "" if it has none."""
        return self.tensors.get(id(tensor), "")
