"""docs/measured/found_in_the_wild.md, from the last run: a row for every alarm, with what is true of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from recording import RESULTS
from what_is_wrong_in_the_wild import DETAILS, QUESTION

PAGE = Path(__file__).parents[2] / "docs" / "measured" / "found_in_the_wild.md"
SCRIPTS = PAGE.parent / "found_in_the_wild"
TOP = """# Found in the wild

Written by `python benchmarks/wild/page.py` from the last run of `benchmarks/what_is_wrong_in_the_wild.py`. What is
true of a Function stands in its recipe (benchmarks/wild/recipes), where it was written by hand, often after the
alarm: central differences in float64 with no part of gradwright in them (benchmarks/wild/by_hand.py; "gap" below is
theirs: the largest difference over the largest entry, input by input) and reading the code. Versions are pinned, by
SHA-256, in benchmarks/wild/requirements.txt.

**Scanned** are all subclasses of `autograd.Function`, by syntax. **Judged** are those that a CPU can call with torch
and light packages; most of the others are CUDA, Triton or C++ kernels, collectives of several machines, or need
packages of that kind. A Function may be judged at several calls. Words: *real*, a fault; *meant*, another gradient on
purpose (a surrogate: one line, `@gw.surrogate`, declares it); *false*, an alarm without a fault.
"""

# Why an alarm is false, by recipe and code.
FALSE = {("torchsde", "GW104"): "rounding in a solve of twenty steps, there and back"}


def words(row: dict[str, Any], finding: dict[str, Any]) -> tuple[str, str]:
    """The adjudication of one alarm, and its reason."""
    if not finding["real"]:
        return "**false**", FALSE.get((row["recipe"], finding["code"]), "not explained yet")
    code = finding["code"]
    if code == "GW106":
        return "real", "saved without its graph; by hand: " + row["second by_hand"]
    for known in (row["real"], row["explained"]):
        if code in known:
            return ("meant" if "on purpose" in known[code] else "real"), known[code]
    return ("meant" if row["truth"] == "surrogate" else "real"), row["why"]


def table(rows: list[dict[str, Any]]) -> list[str]:
    lines = ["| package | Function | gap | alarm | cause | input | is | why |", "|---|---|---|---|---|---|---|---|"]
    for row in rows:
        gap = " ".join(str(value).split(" (")[0] for value in row["by_hand"].values())[:40]
        for finding in row["findings"]:
            if finding["severity"] != "info":
                verdict, why = words(row, finding)
                cells = (row["recipe"], row["function"], gap, finding["code"], finding["cause"], finding["input"])
                lines.append("| " + " | ".join(_cell(text) for text in (*cells, verdict, why)) + " |")
    return lines


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def page() -> str:
    details = json.loads(DETAILS.read_text())
    (summary,) = json.loads((RESULTS / f"{QUESTION}.cpu.json").read_text())["results"].values()
    rows = [row for row in details["rows"] if "findings" in row]
    broken = [row for row in details["rows"] if "broken" in row]
    missed = [
        row
        for row in rows
        if (row["truth"] == "wrong" and "wrong" not in row["verdicts"].values())
        or set(row["real"]) - {finding["code"] for finding in row["findings"]}
    ]
    parts = [TOP, "## Counts\n", "| | |", "|---|---|"]
    parts += [f"| {name} | {value} |" for name, value in summary.items()]
    parts += ["", "## Scripts\n", "Each real kind of fault in a few lines that need torch alone:\n"]
    for script in sorted(SCRIPTS.glob("*.py")):
        told = script.read_text().splitlines()[0].removeprefix("# ")
        parts.append(f"- [{script.name}](found_in_the_wild/{script.name}): {told}")
    parts += ["", "## Every alarm\n", *table(rows)]
    parts += ["", "## Missed\n"]
    parts += [f"- {row['recipe']}, {row['function']}: {row['why'] or ', '.join(row['real'])}" for row in missed] or [
        "None."
    ]
    parts += ["", "## Scanned\n", "Functions found by syntax, package by package:\n"]
    parts.append(", ".join(f"{name} {count}" for name, count in sorted(details["scanned"].items()) if count) + ".")
    if broken:
        parts += [
            "",
            "## Recipes that did not run\n",
            *(f"- {row['recipe']}: {row['broken'][-200:]!r}" for row in broken),
        ]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
