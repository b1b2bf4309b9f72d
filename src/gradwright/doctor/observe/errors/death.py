"""An exception as the report tells it: where, in what function, over which tensors, and what the locators found.

Everything is read from the exception: its frames, their variables, the text of their files, the graph that is still
alive. Nothing of the user's is called but the ``__str__`` of an exception that defines one, as Python itself would to
print it; objects in an exception's arguments are named by class, tensors by shape.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import torch

from gradwright.doctor.observe.errors.clues import find_clues
from gradwright.doctor.observe.errors.scene import Clues, Scene
from gradwright.doctor.observe.errors.spots import shape_of, spec_of, walk
from gradwright.doctor.session.facts import ScriptDied
from gradwright.doctor.session.model import ScriptDeath
from gradwright.doctor.session.place import Location

_OURS = str(Path(__file__).resolve().parents[3]) + os.sep
_BOOTSTRAP = ("<frozen runpy>", "<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")
_MOST_FRAMES = 3000  # beyond these (a raised recursion limit) only the innermost third is kept
_MOST_LINES = 400  # of traceback text; the middle of a longer one is left out
_LONGEST_MESSAGE = 8000  # characters
_MOST_TENSORS = 30
_PLAIN = (str, int, float, complex, bool, bytes, type(None), torch.Size, torch.dtype, torch.device)


def describe_death(
    exception: BaseException,
    *,
    is_user_file: Callable[[str], bool],
    relative: Callable[[str], str],
    subject_id: str,
) -> tuple[ScriptDeath, ScriptDied]:
    """What the session keeps of the exception that ended a script (or a subject tried alone).

    ``is_user_file`` and ``relative`` take a file name as a code object holds it. The location is the innermost
    expression in a user's file, ``None`` if the traceback has none. Never raises, whatever the exception holds.
    Cost: milliseconds; bounded for tracebacks of any length.

    >>> try:
    ...     {}["lr"]
    ... except KeyError as error:
    ...     told, fact = describe_death(error, is_user_file=lambda path: False, relative=str, subject_id="script")
    >>> told.type, told.message, fact.location
    ('KeyError', "'lr'", None)
    """
    kind = _guarded(lambda: _type_name(type(exception)), type(exception).__name__)
    message = _guarded(lambda: _said(exception), "")
    text = _guarded(lambda: _traceback_text(exception), f"{kind}: {message}")
    scene = _guarded(lambda: Scene.of(exception, message, is_user_file, relative), Scene(message, None, ()))
    spot = scene.spot
    location = spot.location if spot else None
    line_text = _guarded(lambda: spot.line_text() if spot else "", "")
    if isinstance(exception, SyntaxError):
        at = _guarded(lambda: _syntax_location(exception, is_user_file, relative), None)
        if at is not None:
            location, line_text = at, str(exception.text or "").strip()
    clues = _guarded(lambda: find_clues(scene, is_user_file, relative), Clues())
    if isinstance(exception, (KeyboardInterrupt, SystemExit)):
        clues.add("ended", "on request")
    fact = ScriptDied(
        id=f"died:{subject_id}",
        subject=subject_id,
        type=kind,
        message=message,
        location=location,
        function=spot.frame.f_code.co_qualname.replace("<locals>.", "") if spot else "",
        line_text=line_text,
        tensors=_guarded(lambda: _tensors(scene), ()),
        details=tuple(clues.found),
        cause=clues.cause,
    )
    return ScriptDeath(type=kind, message=message, traceback=text, location=location), fact


def _guarded(work: Callable[[], Any], otherwise: Any) -> Any:
    """A broken object of the user's (an exception's ``__str__``) costs one part of the story, not the story."""
    try:
        return work()
    except Exception:
        return otherwise


def _type_name(kind: type) -> str:
    """As Python prints it: with its module, unless that goes without saying."""
    return (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    )


def _said(exception: BaseException) -> str:
    """``str(exception)``, without the ``repr`` of foreign objects that a builtin ``__str__`` would call."""
    plain = _is_plain(exception)
    text = str(exception) if plain else ", ".join(_named(argument) for argument in exception.args)
    return text if len(text) <= _LONGEST_MESSAGE else text[:_LONGEST_MESSAGE] + " ..."


def _is_plain(exception: BaseException) -> bool:
    if isinstance(exception, BaseExceptionGroup):
        return type(exception.message) is str
    own = isinstance(getattr(type(exception), "__str__", None), FunctionType)
    return own or all(_is_plain_value(argument) for argument in exception.args)


def _is_plain_value(value: object, depth: int = 3) -> bool:
    if type(value) in (tuple, list) and depth:
        return all(_is_plain_value(item, depth - 1) for item in value)  # type: ignore[attr-defined]  # a tuple or list
    return type(value) in _PLAIN


def _named(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return f"<tensor {str(value.dtype).removeprefix('torch.')}{shape_of(value)}>"
    return str(value) if _is_plain_value(value) else f"<{type(value).__name__}>"


def _syntax_location(
    error: SyntaxError, is_user_file: Callable[[str], bool], relative: Callable[[str], str]
) -> Location | None:
    if not error.filename or not error.lineno or not is_user_file(error.filename):
        return None
    column = max(error.offset or 1, 1)
    if not error.end_lineno or not error.end_offset or error.end_offset < 1:
        return Location(relative(error.filename), error.lineno, column)
    return Location(relative(error.filename), error.lineno, column, error.end_lineno, error.end_offset)


def _tensors(scene: Scene) -> tuple[str, ...]:
    found = [] if scene.spot is None else [spec_of(name, tensor) for name, tensor in scene.spot.tensors()]
    left = len(found) - _MOST_TENSORS
    return (*found[:_MOST_TENSORS], f"and {left} more") if left > 0 else tuple(found)


# --- the traceback, as Python prints it ------------------------------------------------------------------------------


def _traceback_text(exception: BaseException) -> str:
    chain = list(_chain(exception))
    long = sum(1 for link in chain for _ in walk(link.__traceback__)) > _MOST_FRAMES
    limit = -_MOST_FRAMES // 3 if long else None
    if all(_is_plain(link) for link in chain):
        told = traceback.TracebackException.from_exception(exception, limit=limit)
    else:
        told = _told(exception, limit, set())
    _without_ours(told, set())
    lines = "".join(told.format()).splitlines()
    if len(lines) > _MOST_LINES:
        left = len(lines) - _MOST_LINES
        lines[_MOST_LINES // 2 : -_MOST_LINES // 2] = [f"  ... {left} lines left out ..."]
    return "\n".join(lines) + "\n"


def _chain(exception: BaseException) -> Iterator[BaseException]:
    """The exception and those it came from, each once; at most 100."""
    waiting: list[BaseException | None] = [exception]
    seen: set[int] = set()
    while waiting and len(seen) < 100:
        link = waiting.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        waiting += [link.__cause__, link.__context__]
        if isinstance(link, BaseExceptionGroup):
            waiting += list(link.exceptions)


def _told(exception: BaseException, limit: int | None, seen: set[int]) -> traceback.TracebackException:
    """The traceback of a chain in which some exceptions hold foreign objects: their messages are ours."""
    seen.add(id(exception))
    stand_in: BaseException = Exception(_guarded(lambda: _said(exception), "<the message can't be told>"))
    kind: type[BaseException] = type(exception)
    if isinstance(exception, SyntaxError):
        place = (exception.filename, exception.lineno, exception.offset, exception.text)
        stand_in = SyntaxError(exception.msg, place)
    told = traceback.TracebackException(kind, stand_in, exception.__traceback__, limit=limit)
    told.__suppress_context__ = exception.__suppress_context__
    for name in ("__cause__", "__context__"):
        link = getattr(exception, name)
        if link is not None and id(link) not in seen and len(seen) < 100:
            setattr(told, name, _told(link, limit, seen))
    return told


def _without_ours(told: traceback.TracebackException | None, seen: set[int]) -> None:
    if told is None or id(told) in seen:
        return
    seen.add(id(told))
    told.stack[:] = [frame for frame in told.stack if not _is_ours(frame.filename)]
    for link in (told.__cause__, told.__context__, *(getattr(told, "exceptions", None) or ())):
        _without_ours(link, seen)


def _is_ours(file: str) -> bool:
    return file.startswith(_OURS) or file in _BOOTSTRAP or Path(file).name == "runpy.py"
