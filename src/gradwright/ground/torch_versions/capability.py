"""One thing of torch that may be missing, or mean something else, in another torch; and what is lost without it.

NOTE [torch versions]: a new torch comes every eight weeks, and what is private to it changes without a word. So each
private name stands once, in this room, and belongs to a ``Capability``. Importing the room never fails: a name that
this torch has not becomes a stand-in, which raises ``UnsupportedTorch`` where it is used. Whether a name that is there
still does what Gradwright needs is tried once, at first use, by doing it. What is lacking switches off what needs it,
nothing else: an observer of the doctor is left out and named under "not examined", a function of the library raises.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import warnings
from collections.abc import Callable
from typing import Any

import torch

from gradwright.errors import UnsupportedTorch
from gradwright.ground.threads import run_unmoded

#: Every capability, in the order in which the rooms that hold them were loaded.
_all: list[Capability] = []


class Capability:
    """Something that Gradwright does with torch's private parts, tried before it is relied on.

    ``name``: what torch must have, as a reader would look for it. ``serves``: what can't be had without it, as a noun.
    ``probe``: does with it what Gradwright does with it; raises, or returns a sentence, where it comes out otherwise.
    ``since``: the torch that it came with, if Gradwright knows how to do with less before. ``settle``: sets up what
    torch ties to the thread that comes first, in the caller's own, before the probe runs in another.

    >>> never = Capability("torch.no_such_name", "an example", lambda: torch.no_such_name)
    >>> never.find_fault()
    "AttributeError: module 'torch' has no attribute 'no_such_name'"
    >>> _all.remove(never)
    """

    def __init__(
        self,
        name: str,
        serves: str,
        probe: Callable[[], str | None] = lambda: None,
        *,
        of_doctor: bool = True,
        since: tuple[int, int] = (0, 0),
        settle: Callable[[], None] = lambda: None,
    ) -> None:
        self.name, self.serves, self._probe, self.since = name, serves, probe, since
        self._settle = settle
        #: Whether this torch is older than ``since``.
        self.came_later = tuple(int(part) for part in torch.__version__.split(".")[:2]) < since
        #: Whether what is lost is something that the doctor looks at, and not a function of the library alone.
        self.of_doctor = of_doctor
        #: The names of torch that were looked up for it and are not there.
        self.missing: list[str] = []
        self._tried = False
        self._fault: str | None = None
        _all.append(self)

    def find_fault(self) -> str | None:
        """What is wrong with it in this torch; None where it can be relied on.

        It is tried at the first call only, where no mode of the caller's is on.
        """
        if not self._tried:
            with contextlib.suppress(Exception):  # the probe will come upon it, and say so
                self._settle()
            run_unmoded(self._try)
        return self._fault

    def _try(self) -> None:
        self._tried = True
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._fault = "it came later" if self.came_later else self._probe()
        except Exception as error:
            first, *_ = str(error).strip().splitlines() or [""]
            if "fork" in first:  # torch runs no backward in a child of a process whose backwards used a GPU: not tried
                self._tried = False
            else:
                self._fault = f"{type(error).__name__}: {first}"

    @property
    def is_there(self) -> bool:
        """Whether it can be relied on. Cost: nothing to speak of from the second time on."""
        return not self.missing and self.find_fault() is None

    def require(self) -> None:
        """Raises: UnsupportedTorch, where this torch lacks it."""
        if not self.is_there:
            raise UnsupportedTorch(self.describe())

    def describe(self) -> str:
        """What this torch lacks, and what is lost by it, in one sentence."""
        return f"{self.describe_lack()}, which is needed for {self.serves}"

    def describe_lack(self) -> str:
        if self.missing:
            lack = f"has no {' and no '.join(self.missing)}"
        elif self.came_later:
            lack = f"has no {self.name} (torch {'.'.join(map(str, self.since))} has)"
        else:
            lack = f"has another {self.name} than Gradwright knows ({self._fault})"
        return f"torch {torch.__version__} {lack}"


def require(*capabilities: Capability) -> None:
    """Raises: UnsupportedTorch, for the first that this torch lacks."""
    for one in capabilities:
        one.require()


def look_up(path: str, capability: Capability) -> Any:
    """What torch has under a dotted name, or a stand-in that raises UnsupportedTorch wherever it is called or read.

    >>> example = Capability("torch.no_such_name", "an example")
    >>> stand_in = look_up("torch.no_such_name", example)
    >>> try:
    ...     stand_in(1)
    ... except UnsupportedTorch as error:
    ...     print(str(error).replace(torch.__version__, "2.99"))
    torch 2.99 has no torch.no_such_name, which is needed for an example
    >>> _all.remove(example)
    """
    try:
        return resolve(path)
    except (AttributeError, ImportError):
        capability.missing.append(path)
        return Missing(capability)


def look_up_variable(path: str, capability: Capability) -> Callable[[], Any]:
    """What reads a variable of a module each time that it is called. It is C code, which Dynamo does not compile on its
    own where it leaves a caller alone."""
    if isinstance(found := look_up(path, capability), Missing):
        return found
    owner, _, name = path.rpartition(".")
    return functools.partial(getattr, resolve(owner), name)


def look_up_class(path: str, capability: Capability) -> Any:
    """As ``look_up``, for a class: where torch has none, one that nothing is an instance of and that can't be made."""
    found = look_up(path, capability)
    if not isinstance(found, Missing):
        return found

    def refuse(*_: object, **__: object) -> None:
        raise UnsupportedTorch(capability.describe())

    return type(path.rpartition(".")[2], (), {"__new__": refuse})


def resolve(path: str) -> Any:
    """What stands under a dotted name; modules on the way are imported. Raises: AttributeError, ImportError."""
    parts = path.split(".")
    found: Any = importlib.import_module(parts[0])
    for number, part in enumerate(parts[1:], 2):
        if not hasattr(found, part) and hasattr(found, "__path__"):
            importlib.import_module(".".join(parts[:number]))
        found = getattr(found, part)
    return found


class Missing:
    """Stands for what this torch has not."""

    def __init__(self, capability: Capability) -> None:
        self._capability = capability

    def __call__(self, *_: object, **__: object) -> Any:
        raise UnsupportedTorch(self._capability.describe())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what Python asks of any object: hasattr, copy, inspect
            raise AttributeError(name)
        raise UnsupportedTorch(self._capability.describe())


def lacking() -> list[Capability]:
    """What this torch is known to lack so far: names that were looked up in vain, and what was tried and failed."""
    return [one for one in _all if one.missing or (one._tried and one._fault is not None)]


def try_all() -> list[Capability]:
    """Try everything that has been loaded; what this torch lacks of it."""
    for one in _all:
        if not one.missing:
            one.find_fault()
    return lacking()
