"""Custom Functions as tests call them. Only ``Function.apply`` and its way back are watched, nothing else is patched.

What runs under a user's own dispatch or function mode is copied outside of it: a test that counts operations counts
its own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import os
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any

from torch.autograd import Function

from gradwright.doctor.observe import functions as observed_functions
from gradwright.doctor.observe.clock import Clock
from gradwright.doctor.observe.functions import FunctionWatch
from gradwright.doctor.observe.specimens import SpecimenStore
from gradwright.doctor.observe.timeline import TimelineRecord
from gradwright.doctor.observed import FunctionUse, Kept
from gradwright.doctor.session.model import NotExamined
from gradwright.doctor.source.places import definition, is_user_file
from gradwright.ground.tensors import is_being_captured, tensors_in
from gradwright.ground.torch_versions import apply as torchs_apply
from gradwright.ground.torch_versions.fakes import FakeTensor
from gradwright.ground.torch_versions.modes import (
    DisableTorchFunction,
    disable_current_modes,
    len_torch_dispatch_stack,
    len_torch_function_stack,
)
from gradwright.ground.torch_versions.nodes import forward_class
from gradwright.testing.diagnosed.record import NO_TEST, ONLY_LEFT_OUT, TestRecord

MOST = 500  # Functions of a session
PER_DEFINITION = 8  # classes that one definition makes, each with other variables around it


class FunctionsOfTests(FunctionWatch):
    """Every custom Function that is called between ``install`` and ``remove``, with specimens, by test.

    Of a definition that makes a class at each call (a class inside a test), the first is kept of all that have the same
    constants around them, and ``PER_DEFINITION`` in all, so that 10,000 tests take no more memory than 100.
    """

    def __init__(self, record: TestRecord, store: SpecimenStore, on_fault: Callable[[str], None]) -> None:
        clock = Clock()
        super().__init__(clock, TimelineRecord(clock, most=1), store, lambda subject: None, on_fault)
        self._record, self._kept_ones = record, store
        self._process = os.getpid()
        self._made: dict[tuple[object, ...], set[tuple[object, ...]]] = {}
        self._not_watched: weakref.WeakSet[type[Function]] = weakref.WeakSet()
        self._further: Counter[str] = Counter()
        self._calls = threading.local()
        self._earlier = weakref.WeakSet(_subclasses(Function))
        self.raised: set[str] = set()  # subjects of which calls raised as their tests expected
        self.checked: set[str] = set()  # subjects that gw.check called in a test, on inputs of its own making
        # pytest shows no frame of a module that says this: a failing test's traceback stays as it was.
        for module in (observed_functions, torchs_apply):
            module.__tracebackhide__ = True  # type: ignore[attr-defined]  # pytest's own name

    def withdraw(self, specimens: list[Kept]) -> None:
        """Inputs of calls that raised as a test expected are no specimens."""
        for kept in specimens:
            self.raised.add(kept.about.subject)
            self._kept_ones.withdraw(kept)

    def not_examined(self) -> Iterator[NotExamined]:
        for name, count in self._further.items():
            yield NotExamined(
                f"{count:,} further class{'es' if count > 1 else ''} {name}",
                "a test or a factory defines it anew at each call; the first of each kind is tried, "
                f"{PER_DEFINITION} of one definition and {MOST} Functions in all",
            )
        examined = {use.subject.name for use in self.uses.values()}
        for name, test in self._record.left_out.items():
            if name not in examined:
                yield NotExamined(name, f"{ONLY_LEFT_OUT} ({test})")
        for cls in _subclasses(Function):
            code = getattr(getattr(cls, "forward", None), "__code__", None)
            name = _name(cls)
            if code is None or not is_user_file(code.co_filename) or name in {*examined, *self._record.left_out}:
                continue
            where = definition(cls)
            early = ", or through an `apply` that was bound before the session" if cls in self._earlier else ""
            yield NotExamined(name, f"{NO_TEST} ({where}), or only inside a compiled region{early}")

    # --- forward -----------------------------------------------------------------------------------------------------

    def _forward(self, original: Callable[..., Any], cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        __tracebackhide__ = True
        kept: list[Kept] = self._calls.__dict__.setdefault("kept", [])
        before = len(kept)
        try:
            return super()._forward(original, cls, args, kwargs)
        except BaseException:
            self._note_raised(kept[before:])
            raise
        finally:
            del kept[before:]

    def _look_at_inputs(self, cls: Any, args: tuple[Any, ...], by_keyword: bool) -> Any:
        if os.getpid() != self._process or cls in self._not_watched:
            return None
        test = self._record.current
        if test is not None and test.left_out:
            self._record.left_out.setdefault(_name(cls), test.id)
            return None
        if cls not in self.uses and not self._is_new(cls):
            self._not_watched.add(cls)
            self._further[_name(cls)] += 1
            return None
        self._record.called(cls)
        with _undisturbed():
            seen = super()._look_at_inputs(cls, args, by_keyword or _no_specimen(args))
        use, kept = seen
        if kept is not None and _in_a_check():
            self._kept_ones.withdraw(kept)
            self.checked.add(use.subject.id)
            return use, None
        if kept is not None:
            self._calls.kept.append(kept)
        return seen

    def _meet(self, cls: type[Function]) -> FunctionUse:
        """Subjects of one definition share name and place, so a number tells their ids apart."""
        taken = {use.subject.id for use in self.uses.values()}
        use = super()._meet(cls)
        if use.subject.id in taken:
            number = next(n for n in range(2, len(taken) + 3) if f"{use.subject.id}~{n}" not in taken)
            use.subject = dataclasses.replace(use.subject, id=f"{use.subject.id}~{number}")
        return use

    def _is_new(self, cls: type[Function]) -> bool:
        """Whether it is worth another subject: of another definition, or with other constants around it."""
        methods = [inspect.unwrap(getattr(cls, name)) for name in ("forward", "setup_context", "backward")]
        made_by = (cls.__module__, cls.__qualname__, *(getattr(method, "__code__", None) for method in methods))
        known = self._made.setdefault(made_by, set())
        around = tuple(_surroundings(method) for method in methods)
        if around in known or len(known) >= PER_DEFINITION or len(self.uses) >= MOST:
            return False
        known.add(around)
        return True

    # --- backward ----------------------------------------------------------------------------------------------------

    def _backward(self, original: Callable[..., Any], node: Any, cotangents: tuple[Any, ...]) -> Any:
        __tracebackhide__ = True
        use = self.uses.get(forward_class(node))
        kept = use.awaiting.get(node) if use is not None else None
        try:
            return super()._backward(original, node, cotangents)
        except BaseException:
            if kept is not None:
                self._note_raised([kept])
            raise

    def _copy_cotangents(self, kept: Kept, cotangents: tuple[Any, ...]) -> None:
        with _undisturbed():
            super()._copy_cotangents(kept, cotangents)

    def _note_raised(self, specimens: list[Kept]) -> None:
        test = self._record.current
        if test is not None:
            test.raised += specimens


def _subclasses(cls: type[Function]) -> Iterator[type[Function]]:
    for sub in cls.__subclasses__():
        yield sub
        yield from _subclasses(sub)


def _name(cls: type[Function]) -> str:
    return cls.__qualname__.replace("<locals>.", "")


def _surroundings(method: Any) -> tuple[object, ...]:
    """The constants that a method closes over; of everything else the type, of a function its code."""
    cells = getattr(method, "__closure__", None) or ()
    return tuple(_constant(cell) for cell in cells)


def _constant(cell: Any) -> object:
    try:
        value = cell.cell_contents
    except ValueError:  # not bound yet
        return None
    if isinstance(value, (bool, int, float, complex, str, bytes, type(None), CodeType)):
        return type(value), value
    return value.__code__ if isinstance(value, FunctionType) else type(value)


def _in_a_check(limit: int = 80) -> bool:
    """Whether ``gw.check`` (or ``assert_gradients``) made this call: what it tries is no input of the test's."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and limit:
        if str(frame.f_globals.get("__name__", "")).startswith("gradwright.checking."):
            return True
        frame, limit = frame.f_back, limit - 1
    return False


def _no_specimen(args: tuple[Any, ...]) -> bool:
    """What has no values can't be tried; and while a CUDA graph is captured, a copy would become part of it."""
    tensors = list(tensors_in(args))
    if any(isinstance(tensor, FakeTensor) or tensor.is_meta for tensor in tensors):
        return True
    return any(map(is_being_captured, tensors))


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Outside of the dispatch and function modes that the test is under, if it is under any."""
    with contextlib.ExitStack() as stack:
        if len_torch_dispatch_stack():
            stack.enter_context(disable_current_modes())
        if len_torch_function_stack():
            stack.enter_context(DisableTorchFunction())
        yield
