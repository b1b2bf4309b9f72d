"""What became of a learner's file: plain data, which the grading process hands to the one that prints. No torch."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Failure:
    """The first thing that is not right, in the words that the rest of the program uses. ``code``: a rule's, or ""."""

    what: str
    where: str = ""
    why: str = ""
    do: str = ""
    cause: str = ""
    code: str = ""


class NotYet(Exception):
    """Ends the grading: everything after this step is not reached."""

    def __init__(self, what: str, *, where: str = "", why: str = "", do: str = "", cause: str = "", code: str = ""):
        super().__init__(what)
        self.failure = Failure(what, where, why, do, cause, code)


@dataclass(frozen=True, slots=True)
class Step:
    """``passed``: ``None`` if it was not reached."""

    name: str
    passed: bool | None
    said: str = ""


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds of one call with its backward, the median of several that took turns. ``builtin``: torch's own, if any.
    ``of``: what it was given."""

    yours: float
    solution: float
    builtin: float | None
    of: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """``seed``: of the drawn inputs; ``None``: none were drawn."""

    steps: tuple[Step, ...]
    failure: Failure | None = None
    speed: Speed | None = None
    seed: int | None = None

    @property
    def passed(self) -> bool:
        return self.failure is None and all(step.passed for step in self.steps)

    def to_data(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @staticmethod
    def from_data(data: dict[str, Any]) -> Outcome:
        """
        >>> whole = Outcome((Step("value", False),), Failure("huber returned None"), Speed(2.0, 1.0, None, "[8]"), 3)
        >>> Outcome.from_data(whole.to_data()) == whole
        True
        """
        return Outcome(
            steps=tuple(Step(**step) for step in data["steps"]),
            failure=Failure(**data["failure"]) if data["failure"] else None,
            speed=Speed(**data["speed"]) if data["speed"] else None,
            seed=data["seed"],
        )
