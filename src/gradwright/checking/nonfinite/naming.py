"""What a tensor is called where an operation takes it: a variable of the user's, or a module's parameter."""

from __future__ import annotations

from types import FrameType

from torch import Tensor, nn

from gradwright.checking.nonfinite.frames import owner

_MOST_FRAMES = 80
_MOST_NAMES = 500


def name_of(tensor: Tensor, frame: FrameType | None) -> str:
    """``x``, ``model.0.weight``, "" if nobody near has a name for it. The outermost name of a parameter is the longest
    one, and the one that ``named_parameters()`` gives."""
    known = ""
    for _ in range(_MOST_FRAMES):
        if frame is None:
            break
        is_users = owner(frame.f_code.co_filename) == "user"
        for name, value in list(frame.f_locals.items())[:_MOST_NAMES]:
            if value is tensor and is_users:
                return name
            if isinstance(value, nn.Module) and (is_users or name == "self"):
                path = _within(value, tensor)
                if path:
                    known = f"{type(value).__name__}'s {path}" if name == "self" else f"{name}.{path}"
        if is_users and known and not known.count("'s "):
            return known
        frame = frame.f_back
    return known


def _within(module: nn.Module, tensor: Tensor) -> str:
    for name, parameter in nn.Module.named_parameters(module):
        if parameter is tensor:
            return name
    return next((name for name, buffer in nn.Module.named_buffers(module) if buffer is tensor), "")
