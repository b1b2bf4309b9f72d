"""What the second run is told, and what it answers: JSON files beside each other in a folder of their own."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gradwright.doctor.session.place import Location

REQUEST, ANSWER = "request.json", "answer.json"
BEFORE = 2  # steps ahead of the first loss that is not finite: the backward of the one before may have made it so
AFTER = 2  # steps after it, when nothing was found: the second run was another one


@dataclass(frozen=True)
class Request:
    """``site``: the call of ``backward`` whose loss was not finite at its call number ``step``, counted from 0.
    None where there was no backward. From step ``watch_from`` on all is looked at. ``seconds``: after which the second
    run ends itself, as it does when its parent is gone. ``own_look``: it was the script that looked for NaN, and what
    it comes upon counts as what reaches a loss."""

    target: str
    module: bool
    arguments: tuple[str, ...]
    site: Location | None
    step: int
    seconds: float
    watch_from: int
    random: Any = None
    numpy: Any = None
    own_look: bool = False

    def write(self, folder: Path) -> None:
        (folder / REQUEST).write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> Request:
        data = json.loads((folder / REQUEST).read_text())
        data["site"] = data["site"] and Location(**data["site"])
        data["arguments"] = tuple(data["arguments"])
        return cls(**data)
