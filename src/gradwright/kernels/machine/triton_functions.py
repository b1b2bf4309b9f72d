"""Triton, imported by the first kernel that needs it: is it to be had, and source text as one of its functions."""

from __future__ import annotations

import importlib.util
import linecache
from typing import Any, Final

import torch

_LEAST_CAPABILITY: Final = (7, 0)  # of Triton


class NoTritonKernel(Exception):
    """No kernel can be had for a call; the message says why."""


def available(device: torch.device) -> str | None:
    """Why there are no Triton kernels for a device; None: there are."""
    if device.type != "cuda":
        return f"no kernels for {device.type}"
    if torch.version.hip is not None:
        return "no kernels for ROCm"
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed"
    if torch.cuda.get_device_capability(device) < _LEAST_CAPABILITY:
        return f"triton has no kernels for {torch.cuda.get_device_name(device)}"
    return None


_FUNCTIONS: dict[str, Any] = {}


def triton_function(source: str) -> Any:
    """The ``kernel`` that a module's text defines. Triton reads the text again by itself, as tracebacks do."""
    known = _FUNCTIONS.get(source)
    if known is None:
        file = f"<gradwright triton kernel {len(_FUNCTIONS)}>"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        names: dict[str, Any] = {"__name__": "gradwright.kernels.generated"}
        exec(compile(source, file, "exec"), names)  # text of our own making: operations, names and literals
        known = _FUNCTIONS.setdefault(source, names["kernel"])
    return known
