"""What a call does: operations of torch's, functions called, lines of its file that are run. Counted, not timed."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from torch.overrides import TorchFunctionMode, resolve_name

from gradwright.ground.tensors import tensors_in
from gradwright.ground.torch_versions.modes import TorchDispatchMode
from gradwright.ground.torch_versions.operators import schema_of


@dataclass
class Seen:
    """``operations``: by name, as torch dispatches them; ``functions``: of torch, as they are called; ``python``:
    ``module.function``; ``lines``: how many lines of the file were run; ``largest``: the most elements that one
    operation made."""

    operations: Counter[str] = field(default_factory=Counter)
    functions: set[str] = field(default_factory=set)
    python: set[str] = field(default_factory=set)
    lines: int = 0
    largest: int = 0

    @property
    def count(self) -> int:
        return self.operations.total()


class _Dispatched(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's __init_subclass__
    def __init__(self, seen: Seen) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own
        self._seen = seen

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self._seen.operations[schema_of(func).name.partition("::")[2]] += 1
        sizes = [one.untyped_storage().nbytes() // max(one.element_size(), 1) for one in tensors_in(result)]
        self._seen.largest = max(self._seen.largest, *sizes, 0)
        return result


class _Called(TorchFunctionMode):
    def __init__(self, seen: Seen) -> None:
        super().__init__()
        self._seen = seen

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._seen.functions.add(resolve_name(func) or getattr(func, "__name__", ""))
        return func(*args, **(kwargs or {}))


def watched(work: Callable[[], object], file: Path) -> Seen:
    """Do ``work`` and count. Nothing of the grader's is counted as the learner's: lines are those of ``file`` alone.

    >>> import torch
    >>> seen = watched(lambda: torch.ones(3) + 1, Path("none.py"))
    >>> seen.operations["add"], seen.largest
    (1, 3)
    """
    seen = Seen()
    path = os.path.realpath(file)

    codes: dict[CodeType, str] = {}
    of_the_file: dict[str, bool] = {}

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            codes.setdefault(frame.f_code, frame.f_globals.get("__name__", ""))

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        name = frame.f_code.co_filename
        if name not in of_the_file:
            of_the_file[name] = os.path.realpath(name) == path
        return line if of_the_file[name] else None

    def line(frame: FrameType, event: str, arg: Any) -> Any:
        seen.lines += event == "line"
        return line

    before = sys.getprofile(), sys.gettrace()
    with _Called(seen), _Dispatched(seen):
        sys.settrace(trace)
        sys.setprofile(profile)
        try:
            work()
        finally:
            sys.setprofile(before[0])
            sys.settrace(before[1])
    seen.python |= {f"{module}.{code.co_qualname}" for code, module in codes.items()}
    return seen
