"""What is missing for a next time: of each thing that is not fine, what happened, and where."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpu.results import FAILURES, Result


def write_failures(results: Sequence[Result], folder: Path) -> list[str]:
    """``failures.txt``: first all of them in a line each, which are returned, then the traceback of each."""
    missing = [result for result in results if not result.is_fine]
    listed = [f"{len(missing)} of {len(results)} failed or were not run"]
    listed += [f"  {result.outcome:8} {result.step}: {result.name}  {result.why}" for result in missing]
    lines = list(listed)
    for result in missing:
        if result.traceback:
            lines += ["", "=" * 100, f"{result.step}: {result.name}", result.traceback.rstrip()]
    (folder / FAILURES).write_text("\n".join(lines) + "\n", "utf-8")
    return listed
