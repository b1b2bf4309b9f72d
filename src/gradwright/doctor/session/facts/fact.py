"""What every fact has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Phase = Literal["forward", "backward", "loop"]
Verdict = Literal["right", "wrong", "surrogate", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """``id`` names the fact in evidence lists, ``subject`` the subject it is about."""

    id: str
    subject: str
