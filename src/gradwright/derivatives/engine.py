"""Calls of autograd's engine on a graph that is alive, with errors that say what to do."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from gradwright.derivatives.target import Target
from gradwright.errors import DerivativeError


def pull(output: Tensor, target: Target, cotangent: Tensor, *, create_graph: bool = False) -> Tensor:
    """The vjp of a recorded graph: cotangent of ``output`` in, cotangent of ``target`` out.  The graph is kept.

    Shapes: cotangent that of ``output``, result that of ``target``.  Cost: one backward over the way between them.
    Raises: DerivativeError where the graph was freed, or a saved tensor changed in place.
    """
    with told(output, target), torch.autocast(output.device.type, enabled=False):
        pulled: Tensor | None
        (pulled,) = torch.autograd.grad(
            output, target.edge, cotangent, retain_graph=True, create_graph=create_graph, allow_unused=True
        )
    if pulled is None:
        return torch.zeros(target.shape, dtype=target.dtype, device=target.device)
    return pulled


@contextmanager
def told(output: Tensor, target: Target) -> Iterator[None]:
    """Autograd's errors about the state of a graph, said again with what to do."""
    try:
        yield
    except RuntimeError as error:
        text = str(error)
        if "backward through the graph a second time" in text or "after they have already been freed" in text:
            raise DerivativeError(
                f"the graph of y ({list(output.shape)}) was freed by an earlier backward: call that one with "
                "retain_graph=True, or take these derivatives before it"
            ) from error
        if "modified by an inplace operation" in text:
            raise DerivativeError(
                f"a tensor that the graph of y ({list(output.shape)}) saved was changed in place after the forward: "
                f"{text.partition(';')[0]}. Change a copy (x = x + 1, not x += 1), or take these derivatives before"
            ) from error
        raise


class Heard:
    """Whether Python spoke while the engine ran. ``unknown``: nobody could listen."""

    def __init__(self) -> None:
        self.python = False
        self.unknown = False


@contextmanager
def hooks_heard(target: Target) -> Iterator[Heard]:
    """Listen for hooks while the engine runs over a way that is proved to hold no Python function.

    A hook registered on a tensor or a node may do anything to a cotangent, and the graph does not show it. It is a
    Python call made from inside the engine, so a profile function of this thread sees it. Where the engine works in
    threads of its own (accelerators), or somebody profiles already, it can't be seen: then ``unknown`` is set, unless
    no hook was ever registered in this process.
    """
    heard = Heard()
    if _hooks_ever() == 0:
        yield heard
        return
    if target.device.type != "cpu" or sys.getprofile() is not None:
        heard.unknown = True
        yield heard
        return
    inside = False

    def listen(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal inside
        if event == "call":  # from Python or from C: what matters is where the engine is
            heard.python = heard.python or inside
        elif getattr(argument, "__name__", None) == "run_backward":
            inside = event == "c_call"

    sys.setprofile(listen)
    try:
        yield heard
    finally:
        sys.setprofile(None)


def _hooks_ever() -> int:
    """How many hooks of any kind (of modules, too) this process registered so far."""
    return int(RemovableHandle.next_id)
