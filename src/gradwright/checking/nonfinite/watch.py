"""The watch itself: put on, taken off, and what it found."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from gradwright.checking.nonfinite.backward_watch import Walk, leaf_name
from gradwright.checking.nonfinite.looks import all_finite, apart, word
from gradwright.checking.nonfinite.naming import name_of
from gradwright.checking.nonfinite.operations_watch import OperationMode
from gradwright.checking.nonfinite.origins import Ledger, NonfiniteBegin, Origin, TensorSet, first_of
from gradwright.checking.nonfinite.steps_watch import look_at_step
from gradwright.checking.nonfinite.told import told
from gradwright.ground.hooks import beside_the_graph
from gradwright.ground.torch_versions.engine import replaced_engine
from gradwright.ground.torch_versions.levels import are_functorch_transforms_active
from gradwright.ground.torch_versions.modes import DisableTorchFunction, len_torch_dispatch_stack

# Both ``backward`` and ``grad`` look the engine up here, whoever bound them earlier.


class NonfiniteWatch:
    """A context manager; see ``explain_nonfinite``. ``on``: it may be switched off and on inside (nothing is looked at
    while it is off). ``on_found`` is called once, with what was found. ``faults``: what failed of ours, as text."""

    def __init__(self, *, echo: bool = True, on_found: Callable[[NonfiniteBegin], None] | None = None) -> None:
        self._echo, self._on_found = echo, on_found
        self.on = False
        self.first: NonfiniteBegin | None = None
        self.faults: list[str] = []
        self.ledger = Ledger()
        self.scaled = TensorSet()
        self.depth = 0
        self.backward_calls = 0
        self.recording = True
        self._mode: OperationMode | None = None
        self._mode_off = 0
        self._thread, self._process = 0, 0
        self._engine: Any = None
        self._handle: Any = None

    @property
    def report(self) -> str:
        """The finding as text, "" if nothing was found (so far)."""
        return told(self.first) if self.first is not None else ""

    def __str__(self) -> str:
        return self.report or "gradwright: nothing non-finite reached a loss or a gradient\n"

    # --- on and off --------------------------------------------------------------------------------------------------

    def __enter__(self) -> NonfiniteWatch:
        if self._mode is not None:
            return self
        self._thread, self._process = threading.get_ident(), os.getpid()
        self._replaced = replaced_engine(self._around)
        self._replaced.__enter__()
        self._handle = beside_the_graph(register_optimizer_step_post_hook(self._after_step))
        self._mode = OperationMode(self)
        self._mode.__enter__()  # type: ignore[no-untyped-call]  # as torch wrote it
        self.on = True
        return self

    def __exit__(self, *exception: object) -> None:
        if self._mode is None:
            return
        if self.on:
            self.look_back()
        self.on = False
        self._mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]  # as torch wrote it
        self._handle.remove()
        self._replaced.__exit__(None, None, None)
        self._mode = None

    @contextlib.contextmanager
    def mode_is_off(self) -> Iterator[None]:
        """Torch takes a mode off while it handles a call; a backward is watched all the same."""
        self._mode_off += 1
        try:
            yield
        finally:
            self._mode_off -= 1

    def fault(self, error: Exception) -> None:
        """Nothing of ours becomes the user's: it is kept, and the watch goes on."""
        if len(self.faults) < 10:
            self.faults.append(f"{type(error).__name__}: {error}")

    # --- backward ----------------------------------------------------------------------------------------------------

    def _around(self, engine: Callable[..., Any]) -> Callable[..., Any]:
        self._engine = engine
        return self._run_backward

    def _run_backward(self, roots: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        here = threading.get_ident() == self._thread and os.getpid() == self._process
        traced = len_torch_dispatch_stack() or are_functorch_transforms_active()
        if not self.on or not here or traced:
            return self._engine(roots, *args, **kwargs)
        walk = self._begin(roots, args)
        self.depth += 1
        off, self._mode_off = self._mode_off, 0
        try:
            with self._mode if off and self._mode is not None else contextlib.nullcontext():
                result = self._engine(roots, *args, **kwargs)
        except BaseException as error:
            if walk is not None:
                self._ended(walk, error)
            raise
        finally:
            self._mode_off = off
            self.depth -= 1
            if walk is not None:
                walk.take_off()
        if walk is not None:
            self._end(walk, result, args, kwargs)
        if self.depth == 0:
            self.backward_calls += 1
        return result

    def _begin(self, roots: Sequence[Any], args: tuple[Any, ...]) -> Walk | None:
        walk = None
        try:
            with DisableTorchFunction():
                bad = [root for root in roots if isinstance(root, Tensor) and not all_finite(root)]
            for root in bad:
                with apart():
                    origin = self.ledger.origin(root) or self.ledger.origin_behind(root)
                    self._reached(origin, "it is in the loss that backward is called on")
            if not self.on:
                return None
            walk = Walk(self, roots, bool(args[2]) if len(args) > 2 else False)
            walk.put_on()
            return walk
        except Exception as error:
            self.fault(error)
            if walk is not None:
                walk.take_off()
                walk.forget()
            return None

    def _ended(self, walk: Walk, error: BaseException) -> None:
        """Somebody's error came first: of anomaly mode's, which ends a backward at a NaN, the origin is known here."""
        if isinstance(error, RuntimeError) and "returned nan values" in str(error):
            unmeant = [origin for origin in walk.gradients.values() if not origin.skipped]
            self._reached(first_of(unmeant), "anomaly mode ended this backward")
        walk.forget()

    def _end(self, walk: Walk, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Did it reach a leaf's gradient?"""
        try:
            if walk.gradients:
                with apart():
                    if kwargs.get("accumulate_grad"):
                        frame = sys._getframe(2)
                        for node, origin in walk.leaves:
                            if not self._is_in(node):
                                continue
                            name = leaf_name(node, lambda leaf: name_of(leaf, frame))
                            self._reached(origin, f"it is in the gradient of {name} after this backward")
                    else:
                        self._hand_on(walk, result or (), args)
            if self.depth == 0:
                self.ledger.settle()
        except Exception as error:
            self.fault(error)
        finally:
            walk.forget()

    def _is_in(self, node: Any) -> bool:
        """Whether the leaf's gradient is not finite: a hook of the user's may have mended it on the way."""
        gradient = getattr(getattr(node, "variable", None), "grad", None)
        return not isinstance(gradient, Tensor) or not all_finite(gradient)

    def _hand_on(self, walk: Walk, gradients: Sequence[Any], args: tuple[Any, ...]) -> None:
        """``autograd.grad``: its results go on, into a second loss or to a step by hand."""
        inputs = args[3] if len(args) > 3 else ()
        for gradient, wanted in zip(gradients, inputs, strict=False):
            if not isinstance(gradient, Tensor) or all_finite(gradient):
                continue
            edge = wanted if not isinstance(wanted, Tensor) else torch.autograd.graph.get_gradient_edge(wanted)
            origin = walk.gradients.get((edge.node, edge.output_nr)) or self.ledger.origin(gradient)
            if origin is None:
                continue
            self.ledger.mark(gradient, origin)
            is_leaf = isinstance(wanted, Tensor) and wanted.is_leaf
            if is_leaf and self.depth == 0 and not gradient.requires_grad and not args[2]:
                self._reached(origin, "it is in the gradient that autograd.grad returned")

    def _after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if not self.on or threading.get_ident() != self._thread:
            return
        try:
            with apart():
                look_at_step(optimizer, self.ledger, self.backward_calls, sys._getframe(1))
        except Exception as error:
            self.fault(error)

    # --- found -------------------------------------------------------------------------------------------------------

    def _reached(self, origin: Origin | None, where: str) -> None:
        if origin is None or origin.skipped or not self.on or os.getpid() != self._process:
            return
        origin.note(where)
        self.on = False
        self.first = origin.begin
        if self._echo:
            print(self.report, file=sys.stderr, end="", flush=True)
        if self._on_found is not None:
            self._on_found(origin.begin)

    def look_back(self) -> None:
        """At the end: a loss that is not finite, and that nobody called backward on."""
        try:
            with apart():
                for tensor, origin in self.ledger.alive():
                    if tensor.numel() == 1 and tensor.requires_grad and not origin.meant and not all_finite(tensor):
                        self._reached(origin, "it is in a number that still had a graph at the end")
        except Exception as error:
            self.fault(error)

    def looked_at(self, value: Any, where: str) -> None:
        """Somebody looked for NaN, and came upon it in ``value``: a tensor, a number that was read out of one, or
        whatever held it. ``where``: how to say so."""
        try:
            with apart():
                if isinstance(value, Tensor) and not all_finite(value):
                    self._reached(self.ledger.origin(value), where)
                    return
                for tensor, origin in self.ledger.alive():
                    if tensor.numel() != 1 or not tensor.requires_grad or origin.meant or all_finite(tensor):
                        continue
                    if not isinstance(value, float) or word(value) == word(tensor.item()):
                        self._reached(origin, where)
        except Exception as error:
            self.fault(error)
