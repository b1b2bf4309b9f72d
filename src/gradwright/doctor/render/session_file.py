"""The session as it is kept: the contract that other programs read."""

from __future__ import annotations

from gradwright.doctor.session import codec
from gradwright.doctor.session.model import Report


def render(report: Report, *, width: int, color: bool) -> str:
    return codec.to_json(report)
