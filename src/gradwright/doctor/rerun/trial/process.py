"""The process of a trial: the script with one file's text replaced, watched from before it broke to steps after."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

from gradwright.doctor.launch import check_encoding, find_program, on_import_of_torch, run_program
from gradwright.doctor.rerun.process import SecondRun
from gradwright.doctor.rerun.randomness import put_back
from gradwright.doctor.rerun.request import Request
from gradwright.doctor.rerun.trial.instrument import instrumented, offer
from gradwright.doctor.rerun.trial.replaced import ReplacedSource
from gradwright.doctor.rerun.trial.request import Outcome, TrialRequest
from gradwright.doctor.source.expressions.leaves import UnfitError
from gradwright.doctor.source.places import home, is_user_file, relative

if TYPE_CHECKING:
    from gradwright.checking.nonfinite import NonfiniteBegin
    from gradwright.doctor.rerun.trial.twin import Twin


class TrialRun(SecondRun):
    """Counts all calls of ``backward``, and ends the process with an ``Outcome``."""

    def __init__(self, request: Request, trial: TrialRequest, folder: Path) -> None:
        super().__init__(request, folder)
        self._trial = trial
        self._twin: Twin | None = None
        self._lines = (0, 0)

    def run(self) -> None:
        request = self._request
        threading.Thread(target=self._keep_time, daemon=True).start()
        try:
            code, self._lines = instrumented(self._trial)
        except (UnfitError, SyntaxError, ValueError, RecursionError) as error:
            self._tell(error=f"it can't be tried: {error}")
            return
        source = ReplacedSource(self._trial.path, self._trial.text, lambda: code)
        source.install()
        put_back(request.random, request.numpy)
        on_import_of_torch(self._torch_is_here)
        program = find_program(request.target, module=request.module, arguments=request.arguments)

        def compiled(path: str) -> CodeType:
            if source.is_it(path):
                source.show(path, self._trial.text)
                return code
            check_encoding(path)
            return compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)

        run_program(program, compiled, on_death=self._died)
        if os.getpid() == self._process:
            if self._watch is not None:
                self._watch.__exit__(None, None, None)  # may still find something
            self._tell()

    def _torch_is_here(self) -> None:
        import torch

        from gradwright.checking.nonfinite import NonfiniteWatch
        from gradwright.doctor.rerun.trial.twin import Twin

        trial = self._trial
        self._watch = NonfiniteWatch(echo=False, on_found=self._found).__enter__()
        self._watch.on = trial.watch_from == 0
        self._twin = Twin(lambda: self.call, trial.call, self._off, unused=trial.unused)
        offer(self._twin)
        original = torch.autograd.backward

        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> Any:
            if not self._is_inside and self.call >= trial.until:
                self._tell()
            with self._noted(args, kwargs):
                result = original(*args, **kwargs)
            if self._watch is not None and self.call >= trial.watch_from:
                self._watch.on = True
            if self._twin is not None and self._twin.differs:
                self._tell()
            return result

        torch.autograd.backward = backward

    @contextlib.contextmanager
    def _off(self) -> Iterator[None]:
        """Nothing is watched."""
        watch = self._watch
        was = watch is not None and watch.on
        if watch is not None:
            watch.on = False
        try:
            yield
        finally:
            if watch is not None:
                watch.on = was

    def _died(self, error: BaseException) -> None:
        if isinstance(error, SystemExit):
            return
        where = ""
        for frame in traceback.extract_tb(error.__traceback__):
            if is_user_file(frame.filename):
                where = f" at {relative(frame.filename)}:{frame.lineno}"
        self._tell(error=f"the script raises {type(error).__name__}{where}: {str(error)[:200]}")

    def _found(self, begin: NonfiniteBegin) -> None:
        data = dataclasses.asdict(begin)
        data["operands"] = [(name, str(value)) for name, value in begin.operands]
        data["upstream"] = None if begin.upstream is None else str(begin.upstream)
        self._tell(begin=data, begin_call=self.call, fed_it=self._fed_it(begin))

    def _fed_it(self, begin: NonfiniteBegin) -> bool:
        """Whether its operation is among those that the place's operands were made by."""
        from gradwright.checking.nonfinite.operations_watch import KEY, place_in

        nodes = [one.grad_fn for one in (self._twin.last if self._twin is not None else ())]
        seen: set[Any] = set()
        while nodes and len(seen) < 100_000:
            node: Any = nodes.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            label = node.metadata.get(KEY)
            if label is not None and place_in(label) == begin.place:
                return True
            nodes += [following for following, _ in node.next_functions]
        return False

    def _tell(self, **fields: Any) -> None:
        twin = self._twin
        known: dict[str, Any] = {} if twin is None else {
            "evaluations": twin.evaluations, "compared": (twin.compared[0], twin.compared[1]), "worst": twin.worst,
            "tolerance": twin.tolerance, "differs": twin.differs, "wants_gradient": twin.wants_gradient,
        }  # fmt: skip
        faults = self._watch.faults if self._watch is not None else ["torch was never imported"]
        outcome = Outcome(losses=self.values, faults=faults, lines=self._lines, **known, **fields)
        self._end(**dataclasses.asdict(outcome))


def main(folder: str) -> None:
    home()
    where = Path(folder)
    TrialRun(Request.read(where), TrialRequest.read(where), where).run()
