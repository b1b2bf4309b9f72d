"""``%%gradwright`` itself.

NOTE [the cell's own run]: the line is taken off before IPython reads the cell, and IPython runs the cell as ever: its
number, its last expression, ``await``, its exceptions, Ctrl-C are IPython's business. The watching stands on the events
before and after.
"""

from __future__ import annotations

import argparse
import importlib
import re
import shlex
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from gradwright.errors import UsageError

if TYPE_CHECKING:
    from gradwright.doctor.notebook.watched import WatchedCell

_LINE = re.compile(r"%%gradwright(?:[ \t]+(.*))?$")
_PROMPT = re.compile(r"^(?:In \[\d+\]: |>>> )")
REPORT = "_gradwright"


@dataclass(frozen=True)
class Request:
    """What stands behind ``%%gradwright``."""

    name: str = REPORT
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fix: bool = True


class _Words(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(
            f"%%gradwright: {message}\n  do   %%gradwright [NAME] [--select GW1,GW3] [--ignore GW305] [--no-fix]"
        )


def read_line(line: str) -> Request:
    """Raises: UsageError for words that it doesn't know.

    >>> read_line("report --select GW1,gw305 --no-fix")
    Request(name='report', select=('GW1', 'GW305'), ignore=(), fix=False)
    """
    words = _Words(prog="%%gradwright", add_help=False, allow_abbrev=False)
    words.add_argument("name", nargs="?", default=REPORT)
    words.add_argument("--select", default="")
    words.add_argument("--ignore", default="")
    words.add_argument("--no-fix", action="store_true")
    try:
        read = words.parse_args(shlex.split(line))
    except ValueError as error:  # a quotation mark that is not closed
        words.error(str(error))
    if not read.name.isidentifier():
        words.error(f"{read.name!r} can't be the name of the report")
    return Request(read.name, _codes(read.select), _codes(read.ignore), not read.no_fix)


def _codes(text: str) -> tuple[str, ...]:
    return tuple(part.strip().upper() for part in text.split(",") if part.strip())


def asked(cell: str) -> Request | None:
    """The request that a cell begins with; None where there is none, or one that is not understood."""
    first = next((line.strip() for line in cell.splitlines() if line.strip()), "")
    found = _LINE.match(_PROMPT.sub("", first))
    try:
        return read_line(found[1] or "") if found else None
    except UsageError:
        return None


def without_line(lines: list[str]) -> list[str]:
    """Takes the magic's line off; the others keep their numbers, unless another cell magic follows.

    >>> without_line(["%%gradwright\\n", "x = 1\\n"])
    ['# %%gradwright\\n', 'x = 1\\n']
    """
    if not lines or asked(lines[0]) is None:
        return lines
    if len(lines) > 1 and lines[1].startswith("%%"):
        return lines[1:]
    return ["# " + lines[0], *lines[1:]]


class Magic:
    """The magic in one shell: at most one cell is watched at a time."""

    def __init__(self, shell: Any) -> None:
        self._shell = weakref.ref(shell)
        self._cell: WatchedCell | None = None
        self._told: int | None = None

    def put_on(self) -> None:
        shell = self._shell()
        assert shell is not None  # whoever loads it holds it
        transforms = shell.input_transformers_cleanup
        names = [getattr(transform, "__name__", "") for transform in transforms]
        transforms.insert(names.index("cell_magic") if "cell_magic" in names else len(names), without_line)
        shell.register_magic_function(self.gradwright, magic_kind="cell", magic_name="gradwright")
        shell.events.register("pre_run_cell", self.before)
        shell.events.register("post_run_cell", self.after)

    def take_off(self) -> None:
        shell = self._shell()
        if shell is None:
            return
        if self._cell is not None:  # ``%unload_ext`` inside the watched cell
            self._cell.give_up()
            self._cell = None
        shell.events.unregister("pre_run_cell", self.before)
        shell.events.unregister("post_run_cell", self.after)
        if without_line in shell.input_transformers_cleanup:
            shell.input_transformers_cleanup.remove(without_line)
        shell.magics_manager.magics["cell"].pop("gradwright", None)

    def gradwright(self, line: str, cell: str) -> None:
        """%%gradwright [NAME] [--select CODES] [--ignore CODES] [--no-fix]

        Runs the cell as ever, and examines every custom autograd Function, gradient call and loop that it uses: is the
        gradient right, what does it cost, what mends it? The report is shown below the cell's own output, and kept as
        NAME (``_gradwright``). CODES are those of rules, or how they begin: ``GW1,GW305``. ``--no-fix``: no fix is
        looked for, which takes the longest.
        """
        shell = self._shell()
        try:
            read_line(line)
        except UsageError as error:
            # IPython shows its own kind in one line, without a traceback.
            raise importlib.import_module("IPython.core.error").UsageError(str(error)) from None
        assert shell is not None  # it calls this
        shell.run_cell(f"%%gradwright {line}\n{cell}")  # called by its name: the line is taken off from here on

    def before(self, info: Any) -> None:
        """``pre_run_cell``."""
        self._told = None
        request = asked(info.raw_cell or "")
        if request is None or self._cell is not None:
            return
        from gradwright.doctor.notebook.watched import WatchedCell

        cell = WatchedCell(self._shell(), request, info)
        cell.enter()
        self._cell = cell

    def after(self, result: Any = None) -> None:
        """``post_run_cell``: of the cell that is watched, or of one that it runs."""
        cell = self._cell
        if cell is None or (result is not None and result.info.raw_cell != cell.raw_cell):
            return
        self._cell = None
        cell.leave()
        if cell.examine(result):
            self._told = id(result.error_in_exec)

    def told(self, error: Exception) -> bool:
        """Whether the report that was just shown explains this exception."""
        return self._told == id(error)
