"""What is asked for: the command line over ``[tool.gradwright]`` in pyproject.toml over the defaults."""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradwright.doctor.options import Options
from gradwright.errors import UsageError


@dataclass(frozen=True)
class Settings:
    """Names as in pyproject.toml, with dashes there."""

    to_end: bool = False
    max_steps: int = 200
    max_seconds: float = 60.0
    probe_seconds: float = 25.0
    fix_seconds: float = 60.0
    specimen_mib: int = 1024
    rerun: str = "auto"
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    form: str = "terminal"
    output: Path | None = None
    session: Path = Path(".gradwright/last.json")

    def overridden_by(self, given: dict[str, Any]) -> Settings:
        """With what the command line says; an option that was not given (``None``, ``False``) changes nothing."""
        values = {name: value for name, value in given.items() if value is not None and value is not False}
        for name in ("select", "ignore"):
            if name in values:
                values[name] = tuple(part.strip().upper() for part in values[name].split(",") if part.strip())
        return dataclasses.replace(self, **values)

    def options(self, target: str, module: bool, arguments: tuple[str, ...]) -> Options:
        return Options(
            target=target,
            module=module,
            arguments=arguments,
            to_end=self.to_end,
            max_steps=self.max_steps,
            max_seconds=self.max_seconds,
            probe_seconds=self.probe_seconds,
            fix_seconds=self.fix_seconds,
            specimen_bytes=self.specimen_mib << 20,
            rerun=self.rerun,
            select=self.select,
            ignore=self.ignore,
        )


_WORDS = {"rerun": ("always", "auto", "never")}
_KINDS: dict[str, Any] = {
    "to-end": bool,
    "max-steps": int,
    "max-seconds": (int, float),
    "probe-seconds": (int, float),
    "fix-seconds": (int, float),
    "specimen-mib": int,
    "rerun": str,
    "select": list,
    "ignore": list,
    "session": str,
}


def load(start: Path) -> Settings:
    """The nearest pyproject.toml from ``start`` upwards. Raises ``UsageError`` if its table is not understood."""
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        if path.is_file():
            return _read(path)
    return Settings()


def _read(path: Path) -> Settings:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("gradwright", {})
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} can't be read: {error}") from None
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in _KINDS:
            raise UsageError(f"{path}: [tool.gradwright] knows no {key!r}; it knows {', '.join(_KINDS)}")
        if not isinstance(value, _KINDS[key]) or (isinstance(value, bool) and _KINDS[key] is not bool):
            raise UsageError(f"{path}: [tool.gradwright] {key} can't be {value!r}")
        if value not in _WORDS.get(key, (value,)):
            raise UsageError(f"{path}: [tool.gradwright] {key} can be {', '.join(_WORDS[key])}, not {value!r}")
        name = key.replace("-", "_")
        if isinstance(value, list):
            value = tuple(str(code).upper() for code in value)
        values[name] = Path(value) if name == "session" else value
    return Settings(**values)
