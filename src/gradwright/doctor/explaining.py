"""``gw.explain_errors``: what an autograd error means, told on the spot, in one's own loop or notebook."""

from __future__ import annotations

import hashlib
import linecache
import os
import shutil
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from gradwright.doctor.source.places import home, is_user_file, relative, text_of_file

if TYPE_CHECKING:
    from gradwright.doctor.session.model import Finding, Source

_TYPED = ("<ipython-input-", "<python-input-", "<stdin>", "<doctest ")  # code of the user's that lies on no disk
_MOST_LINKS = 20  # of a chain of exceptions

_local = threading.local()
_one_at_a_time = threading.RLock()  # the filters of warnings are the whole process's


def explain_errors() -> AbstractContextManager[None]:
    """Explains the autograd error that leaves the block, on standard error; the exception goes on unchanged.

    For code that runs without the doctor: a loop of one's own, a service, a notebook (``%load_ext gradwright`` does
    the same for every cell). What is told: the code, the place to the column, why, what to do. An exception that no
    rule knows passes in silence, and so does what is meant to end a program (Ctrl-C, ``sys.exit``). Blocks may be
    nested, an error is told once; every thread and generator has its own. A remark ``# gradwright: ignore[GW612]`` at
    the line is heeded.

    Cost: nothing is watched, so a block costs 1.3 microseconds and what runs in it nothing more. What is told is read
    from the exception's frames, their text and the graph that is still alive, in 6 ms (the first time 0.3 s, for the
    rules); an exception that no rule knows costs 0.1 ms. A fault of ours is swallowed: what leaves is always the
    block's own exception.

    >>> import torch, gradwright as gw
    >>> with gw.explain_errors():
    ...     torch.ones(3, requires_grad=True).exp().backward()
    Traceback (most recent call last):
    RuntimeError: grad can be implicitly created only for scalar outputs
    """
    return Block()


class Block:
    """Entered and left in one thread, each time anew; ``tell`` is what leaving does with an exception."""

    def __enter__(self) -> None:
        try:
            home()
        except OSError:  # a working directory that is gone
            pass
        _blocks().append((self, set()))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        blocks = _blocks()
        if blocks and blocks[-1][0] is self:
            told = blocks.pop()[1]
        else:  # a generator's: not the last, or entered in another thread
            told = told_in(self)
            blocks[:] = [pair for pair in blocks if pair[1] is not told]
        if isinstance(error, Exception):
            tell(error, told)


def told_in(block: Block) -> set[tuple[int, str]]:
    """The exceptions that were told while this thread was in ``block``."""
    return next((told for entered, told in reversed(_blocks()) if entered is block), set())


def tell(error: Exception, told: set[tuple[int, str]], name: Callable[[str], str] = relative) -> None:
    """Write what is known about ``error`` to standard error, unless it is in ``told`` that this was done.

    ``name``: how a file is named to the user. Never raises. The blocks around learn that it was told; they keep no
    reference to the exception, whose frames may hold all of a model's memory.
    """
    try:
        this = (id(error), _message(error))
        text = "" if this in told else explanation(error, name)
        if text and sys.stderr is not None:  # print would take standard output in its place
            print(text, file=sys.stderr, flush=True)
        if text or this in told:
            for _, around in _blocks():
                around.add(this)
    except Exception:  # ours, or of an exception that can't be read: the user's own is what matters
        pass


def explanation(error: BaseException, name: Callable[[str], str] = relative) -> str:
    """The findings about an exception, or about one that it was raised from; "" if no rule knows it."""
    from gradwright.doctor.render.terminal import TerminalRenderer
    from gradwright.doctor.session.model import Report

    with _one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the user's files, which are parsed again
        for link in _chain(error):
            findings, sources = _findings(link, name)
            if findings:
                report = Report(findings=tuple(findings), sources=tuple(sources))
                return TerminalRenderer(width=_width(), color=_color()).render_findings(report)
    return ""


def _findings(error: BaseException, name: Callable[[str], str]) -> tuple[list[Finding], list[Source]]:
    from gradwright.doctor.rules import all_rules, judge

    message = _message(error)
    if not any(loaded.rule.match(message) for loaded in all_rules()):
        return [], []
    from gradwright.doctor.observe.errors.death import describe_death
    from gradwright.doctor.session.model import Source, Subject
    from gradwright.doctor.session.place import Location
    from gradwright.doctor.source.suppressions import Suppressions

    files: dict[str, str] = {}

    def named(file: str) -> str:
        files[name(file)] = file
        return name(file)

    _, fact = describe_death(error, is_user_file=_is_users, relative=named, subject_id="block")
    subject = Subject("block", "script", "the block", fact.location or Location("<unknown>", 0))
    findings, sources = [], {}
    for finding in judge([subject], [fact]):
        at = finding.location
        text = text_of_file(files.get(at.path) or str(Path(home()) / at.path))
        remarked = Suppressions.of(text).covers(finding.code, at.line, at.end_line)
        if finding.category != "doctor" and not remarked:
            findings.append(finding)
            sources[at.path] = Source(at.path, hashlib.sha256(text.encode()).hexdigest(), text)
    return findings, list(sources.values())


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception, those of its group, and those it was raised from on purpose."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting and len(seen) < _MOST_LINKS:
        link = waiting.pop(0)
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        waiting.append(link.__cause__)
        if isinstance(link, BaseExceptionGroup):
            waiting += link.exceptions


def _message(error: BaseException) -> str:
    """Without ``str(error)``: that may print a tensor, from a GPU."""
    return " ".join(argument for argument in error.args if type(argument) is str)


def _is_users(path: str) -> bool:
    return is_user_file(path) or (path.startswith(_TYPED) and path in linecache.cache)


def _blocks() -> list[tuple[object, set[tuple[int, str]]]]:
    """The blocks that this thread is in, the innermost last, and which exceptions were told inside each."""
    try:
        blocks: list[tuple[object, set[tuple[int, str]]]] = _local.blocks
    except AttributeError:
        blocks = _local.blocks = []
    return blocks


def _width() -> int:
    return max(60, min(160, shutil.get_terminal_size((100, 24)).columns)) if _in_terminal() else 100


def _color() -> bool:
    return not os.environ.get("NO_COLOR") and (bool(os.environ.get("FORCE_COLOR")) or _in_terminal())


def _in_terminal() -> bool:
    """Standard error may be anything that can be written to: what a notebook or a logger puts there knows no more."""
    return bool(getattr(sys.stderr, "isatty", lambda: False)())
