"""Calls of autograd's engine on a graph that is alive, with errors that say what to do."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge
from torch.overrides import TorchFunctionMode

from gradwright.derivatives.graph.target import Target
from gradwright.errors import DerivativeError
from gradwright.ground.hooks import hooks_of_others
from gradwright.ground.torch_versions.engine import run_engine


def pull(output: Tensor, target: Target, cotangent: Tensor, *, create_graph: bool = False) -> Tensor:
    """The vjp of a recorded graph: cotangent of ``output`` in, cotangent of ``target`` out.  The graph is kept.

    Shapes: cotangent that of ``output``, result that of ``target``.  Cost: one backward over the way between them.
    Raises: DerivativeError where the graph was freed, or a saved tensor changed in place.
    """
    with told(output, target):
        if torch.is_autocast_enabled(output.device.type):
            with torch.autocast(output.device.type, enabled=False):
                pulled = run_backward(output, target.edge, cotangent, create_graph)
        else:
            pulled = run_backward(output, target.edge, cotangent, create_graph)
    if pulled is None:
        return torch.zeros(target.shape, dtype=target.dtype, device=target.device)
    return pulled


def run_backward(output: Tensor, edge: GradientEdge, cotangent: Tensor, create_graph: bool) -> Tensor | None:
    """``torch.autograd.grad`` of one output and one point of the graph, kept; None where nothing depends on it.

    The same call of the engine without the public function around it, which a ``TorchFunctionMode`` would take out of
    its own sight (see ``hooks_heard``).  Works under ``torch.func.vmap``.  Autocast and errors are the caller's.
    """
    made: tuple[Tensor | None] = run_engine(
        (output,), (cotangent,), True, create_graph, (edge,), True, accumulate_grad=False
    )
    return made[0]


@contextmanager
def told(output: Tensor, target: Target) -> Iterator[None]:
    """Autograd's errors about the state of a graph, said again with what to do."""
    try:
        yield
    except RuntimeError as error:
        said = _said_again(str(error), f"y ({list(output.shape)})", target)
        if said is None:
            raise
        raise DerivativeError(said) from error


def _said_again(text: str, y: str, target: Target) -> str | None:
    if "backward through the graph a second time" in text or "after they have already been freed" in text:
        return (
            f"the graph of {y} was freed by an earlier backward: call that one with retain_graph=True, or take these "
            "derivatives before it"
        )
    if "modified by an inplace operation" in text:
        return (
            f"a tensor that the graph of {y} saved was changed in place after the forward: {text.partition(';')[0]}. "
            "Change a copy (x = x + 1, not x += 1), or take these derivatives before"
        )
    if "use_reentrant=True" in text:
        return (
            f"a part of the graph of {y} was recorded by torch.utils.checkpoint with use_reentrant=True, which knows "
            "no derivatives with respect to a chosen point: give it use_reentrant=False"
        )
    if "is not implemented" in text or "no autograd formula was registered" in text:
        return (
            f"an operation between {y} and {target.describe()} has no derivative: {text.partition('. ')[0]}. Write it "
            "in other torch operations, or give its gradient by gw.custom_gradient"
        )
    return None


class Heard:
    """Whether a hook spoke while the engine ran. ``unknown``: nobody could listen."""

    def __init__(self) -> None:
        self.python = False
        self.unknown = False

    @property
    def silent(self) -> bool:
        """No hook spoke, for sure."""
        return not (self.python or self.unknown)


def hooks_ever() -> int:
    """How many hooks of any kind (of modules, too) this process registered so far, but for those of ours that can't
    touch a cotangent: see NOTE [hooks of our own]."""
    return hooks_of_others()


@contextmanager
def hooks_heard() -> Iterator[Heard]:
    """Listen for hooks while the engine runs over a way that is proved to hold no Python function.

    NOTE [Hooks are not in the graph]: a hook registered on a tensor or a node may do anything to a cotangent, and the
    graph does not show it. It is a call made from inside the engine, so it can be heard: a hook written in Python by a
    profile function of this thread, a hook that is a C function (``torch.neg``, a ``functools.partial`` of one) by a
    ``TorchFunctionMode``, since whatever it does to a tensor goes through torch's Python interface, and the engine's
    own work does not. For the time of listening the engine works in the calling thread, on accelerators as well.
    A hook that unpacks saved tensors speaks in the same way where it is written in Python; it changes values, and can
    not let samples meet. Where somebody profiles already nobody can listen: then ``unknown`` is set.
    Nothing is done, and nothing is heard, where no hook was ever registered in this process.

    Nests: every listener hears what is said while it listens.
    """
    heard = Heard()
    if hooks_ever() == 0:
        yield heard
        return
    if sys.getprofile() not in (None, _listen):
        heard.unknown = True
        yield heard
        return
    _ears.listeners.append(heard)
    before = sys.getprofile()
    try:
        with torch.autograd.set_multithreading_enabled(False), _Calls():
            sys.setprofile(_listen)
            try:
                yield heard
            finally:
                sys.setprofile(before)
    finally:
        _ears.listeners.remove(heard)


class _Ears(threading.local):
    """Who listens in this thread, and whether the engine is running in it."""

    def __init__(self) -> None:
        self.listeners: list[Heard] = []
        self.inside = False

    def spoken(self) -> None:
        for heard in self.listeners:
            heard.python = True


_ears = _Ears()


def _listen(frame: FrameType, event: str, argument: Any) -> None:
    if event == "call":  # from Python or from C: what matters is where the engine is
        if _ears.inside:
            _ears.spoken()
    elif getattr(argument, "__name__", None) == "run_backward":
        _ears.inside = event == "c_call"


class _Calls(TorchFunctionMode):
    """Hears torch's functions called while the engine runs; ``torch.autograd.grad`` called under it goes unheard."""

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.autograd.grad:
            for heard in _ears.listeners:
                heard.unknown = True
        if _ears.inside:
            _ears.spoken()
        return func(*args, **(kwargs or {}))
