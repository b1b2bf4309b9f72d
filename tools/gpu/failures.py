"""What is missing for a next time: of each thing that is not fine, what happened, and where."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpu.results import FAILURES, Result


def write_failures(results: Sequence[Result], folder: Path) -> None:
    """``failures.txt``: first all of them in a line each, then the traceback of each."""
    missing = [result for result in results if not result.is_fine]
    lines = [f"{len(missing)} of {len(results)} failed or were not run"]
    lines += [f"  {result.outcome:8} {result.step}: {result.name}  {result.why}" for result in missing]
    for result in missing:
        if result.traceback:
            lines += ["", "=" * 100, f"{result.step}: {result.name}", result.traceback.rstrip()]
    (folder / FAILURES).write_text("\n".join(lines) + "\n", "utf-8")
