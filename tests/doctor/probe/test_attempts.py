"""A trial in a child: what each of them would load is loaded before."""

import os

import pytest

from gradwright.doctor.probe import attempts
from gradwright.doctor.probe.attempts import Limits, attempt


def test_what_every_child_would_import_is_imported_by_their_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = []
    monkeypatch.setattr(attempts, "import_what_cotangents_need", lambda: imported.append(os.getpid()))
    assert attempt(os.getpid, Limits(seconds=10)).value != os.getpid()
    assert imported == [os.getpid()]
