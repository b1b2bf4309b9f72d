"""The process of the second run: the script, and the watch for what is not finite. Nothing of it is printed."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import threading
import time
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

from gradwright.doctor.launch import check_encoding, find_program, on_import_of_torch, run_program
from gradwright.doctor.rerun.randomness import put_back
from gradwright.doctor.rerun.request import AFTER, ANSWER, Request
from gradwright.doctor.source.places import home, location_in, user_frame

if TYPE_CHECKING:
    from gradwright.checking.nonfinite import NonfiniteBegin, NonfiniteWatch

_UNLIKE = "a second run of the script did not repeat it: its runs are not alike (a seed that is not set)"


class SecondRun:
    """Counts the losses of one call of ``backward``, and ends the process with an answer."""

    def __init__(self, request: Request, folder: Path) -> None:
        self._request, self._folder = request, folder
        self._watch: NonfiniteWatch | None = None
        self._is_site: dict[tuple[CodeType, int], bool] = {}
        self._process = os.getpid()
        self.losses = 0

    def run(self) -> None:
        request = self._request
        threading.Thread(target=self._keep_time, daemon=True).start()
        put_back(request.random, request.numpy)
        on_import_of_torch(self._torch_is_here)
        program = find_program(request.target, module=request.module, arguments=request.arguments)
        run_program(program, _compiled, on_death=self._died)
        if os.getpid() == self._process:
            if self._watch is not None:
                self._watch.__exit__(None, None, None)  # may still find it
            self._end(why_not=_UNLIKE)

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
                self._end(why_not=_UNLIKE)
            result = original(*args, **kwargs)
            if counts:
                self.losses += 1
                if self._watch is not None and self.losses >= self._request.watch_from:
                    self._watch.on = True
            return result

        torch.autograd.backward = backward

    def _counts(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """As ``observe.gradients`` counts losses: a number, at that very place."""
        root: Any = args[0] if args else kwargs.get("tensors")
        if isinstance(root, (list, tuple)) and len(root) == 1:
            root = root[0]
        numel = getattr(root, "numel", None)
        if numel is None or numel() != 1:
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
        self._end(**data, step=self.losses)

    def _end(self, **answer: Any) -> None:
        """The answer, whole or not at all; then the end of the process, whatever the script would do."""
        if os.getpid() != self._process:
            return
        part = self._folder / f"{ANSWER}.part"
        part.write_text(json.dumps(answer))
        part.replace(self._folder / ANSWER)
        os._exit(0)

    def _keep_time(self) -> None:
        until = time.monotonic() + self._request.seconds
        while time.monotonic() < until and os.getppid() == self._request.parent:
            time.sleep(0.5)
        if os.getpid() == self._process:
            os._exit(1)


def _compiled(path: str) -> CodeType:
    check_encoding(path)
    return compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)


def main(folder: str) -> None:
    home()
    SecondRun(Request.read(Path(folder)), Path(folder)).run()
