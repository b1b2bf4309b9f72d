"""The process of the second run: the script, and the watch for what is not finite. Nothing of it is printed."""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import functools
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

from gradwright.doctor.launch import check_encoding, find_program, on_import_of_torch, run_program
from gradwright.doctor.rerun.randomness import put_back
from gradwright.doctor.rerun.request import AFTER, ANSWER, Request
from gradwright.doctor.source.imports import WatchedImports, compile_main
from gradwright.doctor.source.places import home, location_in, relative, user_frame
from gradwright.doctor.source.transform import HOOK_NAME
from gradwright.ground.torch_versions.modes import DisableTorchFunction

if TYPE_CHECKING:
    from gradwright.checking.nonfinite import NonfiniteBegin, NonfiniteWatch
    from gradwright.doctor.source.files import SourceFile
    from gradwright.doctor.source.loops import LoopSite

_NO_LOSS = "the script's own look came upon no loss and no gradient that is not finite, in a second run"
_UNLIKE = "a second run of the script did not repeat it: its runs are not alike (a seed that is not set)"


class SecondRun:
    """Counts the losses of one call of ``backward``, and ends the process with an answer."""

    def __init__(self, request: Request, folder: Path) -> None:
        self._request, self._folder = request, folder
        self._watch: NonfiniteWatch | None = None
        self._is_site: dict[tuple[CodeType, int], bool] = {}
        self._process = os.getpid()
        self.losses = 0
        self.values: list[float | None] = []  # of the losses of all calls of backward, None where it was no number
        self.of_site: list[float | None] = []
        self._is_inside = False

    def run(self) -> None:
        request = self._request
        threading.Thread(target=self._keep_time, daemon=True).start()
        put_back(request.random, request.numpy)
        on_import_of_torch(self._torch_is_here)
        program = find_program(request.target, module=request.module, arguments=request.arguments)
        if request.own_look:
            setattr(builtins, HOOK_NAME, _Looks(self._looked))
            WatchedImports(program.roots, _no_loops).install()
        run_program(program, _with_looks if request.own_look else _compiled, on_death=self._died)
        if os.getpid() == self._process:
            if self._watch is not None:
                self._watch.__exit__(None, None, None)  # may still find it
            self._end(why_not=self._why_not())

    def _why_not(self) -> str:
        return _NO_LOSS if self._request.own_look else _UNLIKE

    def _looked(self, at: str, value: Any) -> None:
        """The script's own look came upon something: to be told, it must have a graph, or be read out of what has."""
        if self._watch is not None:
            self._watch.looked_at(value, f"it is in the loss that the script came upon at {at}")

    def _died(self, error: BaseException) -> None:
        """While its frames still hold the loss."""
        if self._watch is not None:
            self._watch.look_back()

    def _torch_is_here(self) -> None:
        import torch

        from gradwright.checking.nonfinite import NonfiniteWatch

        self._watch = NonfiniteWatch(echo=False, on_found=self._found).__enter__()
        self._watch.on = self._request.watch_from == 0
        original = torch.autograd.backward

        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> Any:
            counts = self._counts(args, kwargs)
            if counts and self.losses > self._request.step + AFTER:
                self._end(why_not=self._why_not())
            with self._noted(args, kwargs):
                if counts:
                    self.of_site.append(self.values[-1])
                result = original(*args, **kwargs)
            if counts:
                self.losses += 1
                if self._watch is not None and self.losses >= self._request.watch_from:
                    self._watch.on = True
            return result

        torch.autograd.backward = backward

    @contextlib.contextmanager
    def _noted(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[None]:
        """Around one call of backward: its loss is kept. What it calls itself (a checkpoint) does not count."""
        if self._is_inside:
            yield
            return
        root = _one_number(args, kwargs)
        self.values.append(_value(root) if root is not None else None)
        self._is_inside = True
        try:
            yield
        finally:
            self._is_inside = False

    @property
    def call(self) -> int:
        """The number of the backward that runs, or comes next."""
        return len(self.values) - self._is_inside

    def _counts(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """As ``observe.gradients`` counts losses: a number, at that very place."""
        if _one_number(args, kwargs) is None:
            return False
        frame = user_frame(3)
        if frame is None:
            return False
        key = (frame.f_code, frame.f_lasti)
        if key not in self._is_site:
            self._is_site[key] = location_in(frame.f_code, frame.f_lasti, frame.f_lineno) == self._request.site
        return self._is_site[key]

    def _found(self, begin: NonfiniteBegin) -> None:
        data = dataclasses.asdict(begin)
        data["operands"] = [(name, str(value)) for name, value in begin.operands]
        data["upstream"] = None if begin.upstream is None else str(begin.upstream)
        self._end(**data, step=self.losses, values=self.values, of_site=self.of_site, call=self.call)

    def _end(self, **answer: Any) -> None:
        """The answer, whole or not at all; then the end of the process, whatever the script would do."""
        if os.getpid() != self._process:
            return
        part = self._folder / f"{ANSWER}.part"
        part.write_text(json.dumps(answer))
        part.replace(self._folder / ANSWER)
        os._exit(0)

    def _keep_time(self) -> None:
        until, parent = time.monotonic() + self._request.seconds, os.getppid()
        while time.monotonic() < until and os.getppid() == parent:
            time.sleep(0.5)
        if os.getpid() == self._process:
            os._exit(1)


def _one_number(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The tensor that backward is called on, if it is a single one of one entry."""
    root: Any = args[0] if args else kwargs.get("tensors")
    if isinstance(root, (list, tuple)) and len(root) == 1:
        root = root[0]
    numel = getattr(root, "numel", None)
    return root if numel is not None and numel() == 1 else None


def _value(loss: Any) -> float | None:
    """Read where no watch sees it."""

    with DisableTorchFunction():
        try:
            return float(loss.detach())
        except Exception:  # complex, or without values
            return None


class _Looks:
    """The hook of a watched file: of its loops nothing is wanted here."""

    def __init__(self, looked: Callable[[str, Any], None]) -> None:
        self._looked = looked

    def enter(self, number: int) -> bool:
        return False

    def leave(self, number: int) -> None:
        pass

    def found(self, how: str, trains: bool, value: Any) -> None:
        frame = sys._getframe(1)
        self._looked(f"{relative(frame.f_code.co_filename)}:{frame.f_lineno}", value)


def _no_loops(file: SourceFile, sites: tuple[LoopSite, ...]) -> int:
    return 0


def _with_looks(path: str) -> CodeType:
    return compile_main(path, _no_loops)


def _compiled(path: str) -> CodeType:
    check_encoding(path)
    return compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)


def main(folder: str) -> None:
    home()
    SecondRun(Request.read(Path(folder)), Path(folder)).run()
