"""Functions whose backward ``torch.compile`` leaves out: their ``apply`` is traced inside ``torch.func.grad``.

Dynamo inlines the forward there and differentiates that (pytorch/pytorch#193279, torch 2.13). It is asked while it
traces, so a compiled call costs nothing more; and whether this torch does it is tried once, after the script.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch.autograd import Function

from gradwright.doctor.observe.guard import guarded
from gradwright.doctor.observe.looker import Looker, Surroundings
from gradwright.doctor.session.facts import BackwardDropped, Fact
from gradwright.doctor.session.model import Subject
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.places import characters, definition, is_user_file, relative
from gradwright.ground.torch_versions.dynamo import TRACING_MODULE, find_traced_apply, is_inside_grad


@dataclass
class _Seen:
    subject: Subject
    location: Location
    times: int = 0


class DroppedBackwards(Looker):
    """Looks on when Dynamo traces ``MyFunction.apply``; Dynamo's module is waited for, never imported."""

    looks_at = "Functions whose backward torch.compile leaves out"

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self._seen: dict[type[Function], _Seen] = {}
        self._tried: tuple[float, float] | None = None
        self._restore: Callable[[], None] = lambda: None
        self._look = guarded(self._traced, self.on_fault)

    def install(self) -> None:
        if TRACING_MODULE in sys.modules:
            self._patch(sys.modules[TRACING_MODULE])
        else:
            waiter = _Waiter(guarded(self._patch, self.on_fault))
            sys.meta_path.insert(0, waiter)
            self._restore = waiter.stop

    def remove(self) -> None:
        self._restore()
        if self._seen:
            self._tried = guarded(_try, lambda _: None)()

    def _patch(self, module: ModuleType) -> None:
        found = find_traced_apply(module)
        if found is None:
            return
        (traced, original), look = found, self._look

        def call_apply(variable: Any, tx: Any, *args: Any, **kwargs: Any) -> Any:
            look(variable, tx)
            return original(variable, tx, *args, **kwargs)

        traced.call_apply = call_apply
        self._restore = lambda: setattr(traced, "call_apply", original)

    def _traced(self, variable: Any, tx: Any) -> None:
        cls: Any = variable.fn_cls
        path = getattr(getattr(inspect.unwrap(cls.forward), "__code__", None), "co_filename", "<unknown>")
        if not is_inside_grad(tx) or not is_user_file(path) or cls.backward is Function.backward:
            return
        if cls not in self._seen:
            at = definition(cls)
            name = cls.__qualname__.replace("<locals>.", "")
            subject = Subject(f"function:{cls.__qualname__}@{at}", "function", name, at)
            self.on_new(subject)
            self._seen[cls] = _Seen(subject, _place(tx, tx.f_code.co_filename) or at)
        self._seen[cls].times += 1

    def facts(self) -> list[Fact]:
        if self._tried is None or self._tried[0] == self._tried[1]:
            return []
        returned, asked = self._tried
        return [
            BackwardDropped(
                id=f"dropped {seen.subject.id}",
                subject=seen.subject.id,
                location=seen.location,
                times=seen.times,
                returned=returned,
                asked=asked,
            )
            for seen in self._seen.values()
        ]


def _place(tx: Any, path: str) -> Location | None:
    """Of the instruction that is traced, where it stands in a file of the user's."""
    at = getattr(tx.current_instruction, "positions", None)
    if not is_user_file(path) or at is None or None in (at.lineno, at.end_lineno, at.col_offset, at.end_col_offset):
        return None
    first, last = at.lineno, at.end_lineno
    start, end = characters(path, first, at.col_offset), characters(path, last, at.end_col_offset)
    return Location(relative(path), first, start + 1, last, end + 1)


class _Marked(Function):
    """Twice its input, with a backward that says 5."""

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, cotangent: torch.Tensor) -> torch.Tensor:
        return cotangent * 5


def _try() -> tuple[float, float]:
    """What this torch returns for the derivative of ``_Marked`` inside a compiled region, and what was asked for."""
    with torch.enable_grad(), torch.inference_mode(False):
        x = torch.ones((), device="cpu")
        differentiated = torch.func.grad(lambda x: _Marked.apply(x))  # type: ignore[no-untyped-call]  # it is
        compiled = torch.compile(differentiated, backend="eager")
        return float(compiled(x)), 5.0


class _Waiter:
    """Calls once, right after Dynamo's module was imported."""

    def __init__(self, call: Callable[[ModuleType], Any]) -> None:
        self._call = call

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != TRACING_MODULE:
            return None
        self.stop()
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute, call = spec.loader.exec_module, self._call

            def exec_module(module: ModuleType) -> None:
                execute(module)
                call(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]  # this one import only
        return spec

    def stop(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
