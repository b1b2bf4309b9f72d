"""What do the applications reach?

Each program under examples/ that is a small real application is run as its page says, with its full arguments, in a
process of its own, one after the other: its tables, the seconds it took, and its plot, beside its page. A script takes
`--results FILE.json`, into which it writes {"tables": {TITLE: {ROW: {COLUMN: VALUE}}}, "notes": [...]}, and
`--plot FILE.png`.

    .venv/bin/python benchmarks/what_do_the_applications_reach.py [--only cartpole ...] [--no-save]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from recording import RESULTS, describe_machine, save

QUESTION = "what_do_the_applications_reach"
ROOT = Path(__file__).parents[1]
APPLICATIONS = ("cartpole", "robust_regression", "wgan_gp", "burgers")
LIMIT = 300.0  # seconds: no application is to take longer on two cores


def run(name: str, plots: Path) -> tuple[dict[str, Any], float]:
    """What the application tells of its results, and the seconds it took."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "results.json"
        script = ROOT / "examples" / name / "train.py"
        words = [sys.executable, str(script), "--results", str(told), "--plot", str(plots / f"{name}.png")]
        started = time.perf_counter()
        subprocess.run(words, check=True, cwd=folder)
        seconds = time.perf_counter() - started
        results: dict[str, Any] = json.loads(told.read_text())
    return results, seconds


def merged(runs: dict[str, tuple[dict[str, Any], float]], before: dict[str, Any]) -> dict[str, Any]:
    """The result of all applications; of those that were not run, what stands in ``before``."""
    machine = describe_machine()
    rows: dict[str, Any] = {}
    tables: dict[str, Any] = {}
    notes: dict[str, list[str]] = {}
    for name in APPLICATIONS:
        if name in runs:
            told, seconds = runs[name]
            rows[name] = {"seconds": round(seconds), "limit": round(LIMIT), "date": machine["date"]}
            tables |= told["tables"]
            notes[name] = told.get("notes", [])
        elif name in before.get("results", {}):
            rows[name] = before["results"][name]
            notes[name] = before["notes_of"][name]
            titles = before["tables_of"][name]
            tables |= {title: before["tables"][title] for title in titles}
    owned = {name: list(told["tables"]) for name, (told, _) in runs.items()}
    return {
        "machine": machine,
        "results": rows,
        "tables": tables,
        "notes": [note for name in rows for note in notes[name]],
        "tables_of": {name: owned.get(name) or before["tables_of"][name] for name in rows},
        "notes_of": notes,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=APPLICATIONS, default=APPLICATIONS)
    parser.add_argument("--no-save", action="store_true", help="keep neither figures nor plots")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        plots = Path(folder) if options.no_save else ROOT / "docs" / "applications"
        plots.mkdir(parents=True, exist_ok=True)
        runs = {name: run(name, plots) for name in options.only}
    late = {name: seconds for name, (_, seconds) in runs.items() if seconds > LIMIT}
    if late:
        sys.exit(f"longer than {LIMIT:.0f} s, nothing saved: {late}")
    path = RESULTS / f"{QUESTION}.cpu.json"
    if not options.no_save:
        save(QUESTION, merged(runs, json.loads(path.read_text()) if path.exists() else {}))


if __name__ == "__main__":
    main()
