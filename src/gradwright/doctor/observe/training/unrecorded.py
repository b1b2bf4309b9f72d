"""The user's blocks without gradients, and which modules run in them in train mode.

A module hook is on inside of them: in the first blocks, then in one of twice as many, for a few calls each.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.modules.module import register_module_forward_pre_hook

from gradwright.doctor.observe.guard import OnFault, guarded
from gradwright.doctor.observe.training.one_step import compiles
from gradwright.doctor.observe.training.owners import called
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.places import is_user_file, location_in, user_frame
from gradwright.ground.hooks import beside_the_graph
from gradwright.ground.torch_versions.modules import BatchNorm, Dropout

_BLOCKS = 64  # all looked into; then one in twice as many
_CALLS = 400  # of modules in a block
_OUR_FILES = frozenset({__file__, guarded.__code__.co_filename})


@dataclass
class Block:
    """A block without gradients that modules were called in."""

    context: int
    location: Location
    step: int
    name: str = ""
    outermost: weakref.ref[Module] | None = None
    last_input: weakref.ref[Tensor] | None = None
    repeated: bool = False
    calls: int = 0
    parts: set[str] = field(default_factory=set)

    def note(self, module: Module, args: Any) -> None:
        self.calls += 1
        if self.outermost is None:
            self.outermost = weakref.ref(module)
        if module is self.outermost() and args and isinstance(args[0], Tensor):
            self.repeated |= self.last_input is not None and self.last_input() is args[0]
            self.last_input = weakref.ref(args[0])
        if module.training and acts(module):
            self.parts.add(type(module).__name__)


class BlockWatch:
    """``step()``: how many steps were taken, 0 as long as nobody wants to know. ``last``: the last block in which
    something ran in train mode that acts otherwise there."""

    def __init__(self, on_fault: OnFault, step: Callable[[], int]) -> None:
        self._on_fault, self._step = on_fault, step
        self.last: Block | None = None
        self._blocks = 0
        self._block: Block | None = None
        self._hook: Any = None
        self._restore: list[Callable[[], None]] = []

    def install(self) -> None:
        for kind in (torch.no_grad, torch.inference_mode):
            for name, around in (("__enter__", self._enters), ("__exit__", self._leaves)):
                original = vars(kind)[name]
                setattr(kind, name, functools.wraps(original)(around(original)))
                self._restore.append(functools.partial(setattr, kind, name, original))

    def remove(self) -> None:
        self._leave()
        while self._restore:
            self._restore.pop()()

    def _enters(self, original: Callable[..., Any]) -> Callable[..., Any]:
        entered = guarded(self._enter, self._on_fault)

        def enter(block: Any) -> Any:
            if self._block is None and self._step():
                entered(block)
            return original(block)

        return enter

    def _enter(self, context: Any) -> None:
        frame = _user_around()
        if frame is None or threading.current_thread() is not threading.main_thread():
            return
        self._blocks += 1
        if (self._blocks > _BLOCKS and self._blocks & (self._blocks - 1)) or compiles():
            return
        self._block = Block(id(context), location_in(frame.f_code, frame.f_lasti, frame.f_lineno), self._step())
        self._hook = beside_the_graph(register_module_forward_pre_hook(guarded(self._called, self._on_fault)))

    def _called(self, module: Module, args: Any) -> None:
        if self._block is not None and self._block.calls < _CALLS and not torch.is_grad_enabled():
            self._block.note(module, args)

    def _leaves(self, original: Callable[..., Any]) -> Callable[..., Any]:
        left = guarded(self._leave, self._on_fault)

        def leave(context: Any, *raised: Any) -> Any:
            if self._block is not None and self._block.context == id(context):
                left()
            return original(context, *raised)

        return leave

    def _leave(self) -> None:
        block, self._block = self._block, None
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
        module = block.outermost() if block is not None and block.outermost is not None else None
        if block is not None and module is not None and block.parts and not block.repeated:
            block.name = called(module)
            self.last = block


def acts(module: Module) -> bool:
    """Whether the mode makes a difference to the module itself."""
    if isinstance(module, Dropout):
        return module.p > 0
    return isinstance(module, BatchNorm) and module.track_running_stats


def _user_around() -> FrameType | None:
    """The frame that enters a block without gradients, if it is the user's, or of a function so decorated."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename in _OUR_FILES:
        frame = frame.f_back
    if frame is None or is_user_file(frame.f_code.co_filename):
        return frame
    decorated = frame.f_locals.get("func") if frame.f_code.co_name == "decorate_context" else None
    code = getattr(decorated, "__code__", None)
    return user_frame(2) if code is not None and is_user_file(code.co_filename) else None
