"""A report that shows itself: printed, in a notebook, as JSON."""

from __future__ import annotations

import dataclasses

from gradwright.doctor.render import fragment, terminal
from gradwright.doctor.render.view import view
from gradwright.doctor.session import codec
from gradwright.doctor.session.model import Report


class ShownReport(Report):
    """A :class:`Report` whose ``str`` is the terminal's text and which a notebook shows as HTML.

    Equal to any report with the same fields, and hashed like it.
    """

    __slots__ = ()

    def __str__(self) -> str:
        return terminal.render(self, width=100, color=False)

    def __repr__(self) -> str:
        return f"<Report: {view(self).summary}; print() shows it>"

    def _repr_html_(self) -> str:
        return fragment.render(self)

    def to_json(self) -> str:
        """The session file: the contract that ``gradwright report`` and other programs read."""
        return codec.to_json(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Report):
            return NotImplemented
        return _fields(self) == _fields(other)

    __hash__ = Report.__hash__


def shown(report: Report) -> ShownReport:
    """The same report, showing itself.

    >>> shown(Report())
    <Report: nothing wrong was found; print() shows it>
    """
    return ShownReport(**{field.name: getattr(report, field.name) for field in dataclasses.fields(Report)})


def _fields(report: Report) -> tuple[object, ...]:
    return tuple(getattr(report, field.name) for field in dataclasses.fields(Report))
