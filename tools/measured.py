"""The figures of a page, from benchmarks/results: a line on machine and date, and the table.

In a page, ``<!-- measured: RESULT -->`` names a file of benchmarks/results (without ``.cpu.json``; of one device alone
with it: ``RESULT.cuda``) and shows its rows; ``<!-- measured: RESULT/TITLE -->`` shows the table of that title. Where
there is one of a GPU too, that one stands first. Everything up to ``<!-- /measured -->`` is replaced.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"<!-- measured: (?P<what>[^\n]+?) -->\n.*?<!-- /measured -->", re.DOTALL)


def filled(text: str, results: Path) -> str:
    """``text`` with its measured blocks as the results have them.

    Raises: SystemExit, naming the block, where there is no such result or no such table, or a block is not closed.
    """
    if len(BLOCK.findall(text)) != text.count("<!-- measured:"):
        raise SystemExit("a `<!-- measured: -->` has no `<!-- /measured -->`")
    return BLOCK.sub(lambda found: _block(found["what"], results), text)


def blocks(text: str) -> list[str]:
    """What has to agree of a page."""
    return [found[0] for found in BLOCK.finditer(text)]


def _block(what: str, results: Path) -> str:
    name, _, title = what.partition("/")
    path = results / (f"{name}.json" if "." in name else f"{name}.cpu.json")
    if not path.is_file():
        raise SystemExit(f"measured: {what}: there is no {path.name} in {results}")
    data = json.loads(path.read_text())
    tables = data.get("tables", {})
    if title and title not in tables:
        raise SystemExit(f"measured: {what}: {path.name} has no table of that title, but {', '.join(tables)}")
    shown = _show(data, title)
    on_gpu = results / f"{name}.cuda.json"
    if "." not in name and on_gpu.is_file() and _find_rows(data := json.loads(on_gpu.read_text()), title):
        shown = f"{_show(data, title)}\n\n{shown}"
    return f"<!-- measured: {what} -->\n{shown}\n<!-- /measured -->"


def _show(data: dict[str, Any], title: str) -> str:
    return f"{machine_line(data['machine'])}\n\n{_table(_find_rows(data, title))}"


def _find_rows(data: dict[str, Any], title: str) -> dict[str, dict[str, Any]]:
    """Of the table with this title, of the results themselves without one; empty where there is none."""
    return data.get("tables", {}).get(title, {}) if title else data["results"]


def machine_line(machine: dict[str, Any]) -> str:
    return (
        f"*Measured on {machine['date']}: {machine['cpu']}, {machine['cores']} cores, Python {machine['python']}, "
        f"torch {machine['torch']}, allocator: {machine['allocator']}.*"
    )


def _table(rows: dict[str, dict[str, Any]]) -> str:
    """As on the page of all benchmarks; a row may lack a column."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from table import table

    return table(rows)
