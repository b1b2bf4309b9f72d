"""A change of source that a rewrite proposes, before anything has been tried."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Twin:
    """What a changed expression can be compared by: ``before`` and ``after`` are expressions of the same names, to be
    computed where the new text has the characters from ``span[0]`` to ``span[1]``. ``unused``: where it was not finite
    it is another number now, which nobody may use. ``opened``: ``before`` was read together from several places."""

    span: tuple[int, int]
    before: str
    after: str
    unused: bool = False
    opened: bool = False


@dataclass(frozen=True, slots=True)
class Proposal:
    """The whole new text of one file, and where in it the change lies.

    ``class_name`` is the class whose method changed ("" for a plain function), ``function`` that method or function,
    ``lines`` its first and last line in ``new_text``; ``changed`` are the lines of ``new_text`` that are new; ``what``
    says in one sentence what changes.

    ``replaced`` are the first and last line, in the old text, of the statements that the change takes the place of (a
    loop, and what follows it if that changes too), ``region`` the same in ``new_text``; (0, 0) where the change is to
    be tried as the whole class or function. Lines may go elsewhere in the same function as well, if nobody can tell (a
    buffer that is no longer written into). ``added``: what the change adds to the module (an import, a kernel), source
    that stands in ``new_text`` too. ``certificate``: why the change holds for all shapes, in one sentence; "" if it is
    only tried. ``unsafe``: at which inputs the meaning changes, in one sentence; "" if at none that is known.
    ``twin``: for a trial in a run of the whole script.
    """

    rewrite: str
    path: str
    new_text: str
    diff: str
    what: str
    class_name: str
    function: str
    lines: tuple[int, int]
    changed: tuple[int, ...]
    replaced: tuple[int, int] = (0, 0)
    region: tuple[int, int] = (0, 0)
    added: str = ""
    certificate: str = ""
    unsafe: str = ""
    twin: Twin | None = None
