"""What the command line, pyproject.toml and ``gw.diagnose`` agree on, as plain data that travels to the patient."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Options:
    """``target`` is a script, a folder with ``__main__.py``, or with ``module=True`` the name of a module.

    ``max_steps`` optimizer steps or ``max_seconds`` after the first gradient end the script; ``to_end`` lifts both.
    ``probe_seconds`` bounds the trying of all subjects together, ``fix_seconds`` the search for fixes and their proofs;
    ``specimen_bytes`` the copies of inputs. ``rerun``: whether the script is run once more, instrumented, where its
    loss became nan or infinite: "always", "never", or where the first run was short ("auto"). ``meeting``: the folder
    in which the ranks of one run meet, "" for a lone process; ``agreed``: all are there and agree when to stop;
    ``leads``: this one says when, and tries fixes.
    """

    target: str = ""
    module: bool = False
    arguments: tuple[str, ...] = ()
    to_end: bool = False
    max_steps: int = 200
    max_seconds: float = 60.0
    probe_seconds: float = 25.0
    fix_seconds: float = 60.0
    specimen_bytes: int = 1 << 30
    rerun: str = "auto"
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    meeting: str = ""
    agreed: bool = False
    leads: bool = True

    def wants(self, code: str) -> bool:
        """Whether findings of this code are shown: both options name codes or beginnings of codes.

        >>> Options(select=("GW3",), ignore=("GW301",)).wants("GW304"), Options(ignore=("GW3",)).wants("GW304")
        (True, False)
        """
        chosen = not self.select or code.startswith(self.select)
        return chosen and not (self.ignore and code.startswith(self.ignore))

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Options:
        data: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in json.loads(text).items()
        }
        return cls(**data)


RERUN_AFTER_SECONDS = 30.0  # a script that took longer is run again only where that was asked for
_RERUN_LEAST, _RERUN_TIMES = 60.0, 4.0


def rerun_seconds(options: Options, first_seconds: float) -> float:
    """How long a second run may take, 0 if there is to be none."""
    wanted = options.rerun == "always" or (options.rerun == "auto" and first_seconds < RERUN_AFTER_SECONDS)
    return _RERUN_LEAST + _RERUN_TIMES * first_seconds if wanted else 0.0
