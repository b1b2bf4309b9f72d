"""Whose session is it, and can it be read here?"""

from __future__ import annotations

from typing import Any

import gradwright
from gradwright.doctor.session.misfit import told
from gradwright.doctor.session.model import SCHEMA_VERSION
from gradwright.errors import SessionError

# What every session has had since the first one: a file without them tells nothing, and nothing is not "clean".
_ALWAYS_THERE = (
    "environment", "script", "sources", "subjects", "specimens", "facts", "findings", "suppressed", "not_examined",
)  # fmt: skip


def may_be_read(data: Any) -> None:
    """Raises: SessionError, if ``data`` is no session, lacks a part that every session has, or is one of another schema
    version: who wrote it, what to do."""
    if not isinstance(data, dict):
        raise SessionError(f"it is JSON but no session: {told(data)}")
    if "schema_version" not in data:
        raise SessionError('it is JSON but no session: there is no "schema_version" in it')
    version = data["schema_version"]
    if isinstance(version, bool) or not isinstance(version, int):
        raise SessionError(f"its schema version is no integer: {told(version)}")
    if version == SCHEMA_VERSION:
        _may_be_whole(data)
        return
    wrote = _written_by(data)
    if wrote == gradwright.__version__:
        raise SessionError(
            f"it has schema version {told(version)}, and says that Gradwright {wrote} wrote it; this one is of that "
            f"number, too, but reads version {SCHEMA_VERSION}: another build wrote it, or somebody changed it"
        )
    raise SessionError(
        f"it has schema version {told(version)}"
        + (f", written by Gradwright {wrote}" if wrote else "")
        + f"; this Gradwright, {gradwright.__version__}, reads version {SCHEMA_VERSION}"
        + (": update it" if version > SCHEMA_VERSION else "")
    )


def _may_be_whole(data: dict[str, Any]) -> None:
    missing = [name for name in _ALWAYS_THERE if name not in data]
    if missing:
        what = "part" if len(missing) == 1 else "parts"
        raise SessionError(f"it is no whole session: it lacks the {what} {', '.join(missing)}, which every session has")


def written_elsewhere(data: dict[str, Any]) -> str:
    """Which Gradwright wrote it, if that was another one: what does not fit may be new, or no longer known."""
    wrote = _written_by(data)
    if not wrote or wrote == gradwright.__version__:
        return ""
    return f" (it was written by Gradwright {wrote}, and this is {gradwright.__version__})"


def _written_by(data: dict[str, Any]) -> str:
    """The version, "" where it does not say."""
    environment = data.get("environment")
    wrote = environment.get("gradwright") if isinstance(environment, dict) else None
    return told(wrote)[1:-1] if isinstance(wrote, str) and len(wrote) < 40 else ""
