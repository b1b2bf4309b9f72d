"""What is wrong with the custom Functions that people publish, and is what gradwright says of them true?

Packages at pinned versions (wild/requirements.txt) are downloaded to a cache outside the repository, and every
subclass of `autograd.Function` in them is counted (by syntax). For those that can be called on a CPU there is a
recipe (wild/recipes): the call, and what is true of its gradient, found by hand: central differences in float64 with
no part of gradwright in them (wild/by_hand.py) and reading the code, often after an alarm: recall is of the faults
known now, and says nothing of those that neither way saw. `gw.check` at level standard runs on each; every
error or warning is an alarm, and real or false by that truth. A fault that is not found is a miss.

    GRADWRIGHT_WILD=/somewhere/big python benchmarks/what_is_wrong_in_the_wild.py [recipe ...]
    python benchmarks/wild/page.py    writes docs/measured/found_in_the_wild.md from it

With recipes named, only these run again; the other rows stay as they were.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from recording import RESULTS, describe_machine, save
from wild.fetching import fetched
from wild.loading import PINS
from wild.scanning import functions_in

HERE = Path(__file__).parent / "wild"
QUESTION = "what_is_wrong_in_the_wild"
DETAILS = RESULTS / "details" / f"{QUESTION}.json"
SECONDS = 900
SECOND_ORDER_GAP = 1e-3  # relative; right ones come to 1e-6 and less


def run(recipe: str) -> list[dict[str, Any]]:
    """The rows of one recipe, from a process of its own."""
    done = subprocess.run(
        [sys.executable, str(HERE / "judge.py"), recipe],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env={**os.environ, "TORCHDYNAMO_DISABLE": "1"},  # torch.compile needs a compiler, and is not the question
    )
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode:
        print(f"{recipe}: exit {done.returncode}\n{done.stderr[-500:]}", file=sys.stderr)
    return [{"recipe": recipe, **row} for row in rows]


def is_real(row: dict[str, Any], finding: dict[str, Any]) -> bool:
    """By the recipe's truth, or, for a second derivative, by differences of the backward."""
    if finding["code"] == "GW106":
        gap = row["second by_hand"].split(" (")[0]
        return _is_number(gap) and float(gap) > SECOND_ORDER_GAP
    if finding["code"] in row["real"] or finding["code"] in row["explained"]:
        return True
    if row["truth"] == "wrong":
        return finding["code"] in ("GW101", "GW103", "GW105")
    return row["truth"] == "surrogate" and finding["code"] in ("GW101", "GW102", "GW105")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def summarised(rows: list[dict[str, Any]], scanned: int, packages: int) -> dict[str, Any]:
    judged = [row for row in rows if "findings" in row and "raised" not in row]
    alarms = [(row, finding) for row in judged for finding in row["findings"] if finding["severity"] != "info"]
    verdicts = Counter(_verdict(row) for row in judged)
    wrong = [row for row in judged if row["truth"] == "wrong"]
    contract = [(row, code) for row in judged for code in row["real"]]
    told = {(row["recipe"], row["function"], finding["code"]) for row, finding in alarms}
    return {
        "packages scanned": packages,
        "Functions scanned": scanned,
        "packages judged": len({row["recipe"] for row in judged}),
        "Functions judged": len({(row["recipe"], row["function"].split(",")[0]) for row in judged}),
        "calls judged": len(judged),
        "right": verdicts["right"],
        "surrogate": verdicts["surrogate"],
        "unknown": verdicts["unknown"],
        "wrong": verdicts["wrong"],
        "alarms": len(alarms),
        "real": sum(is_real(row, finding) for row, finding in alarms),
        "false": sum(not is_real(row, finding) for row, finding in alarms),
        "wrong values found": f"{sum(_verdict(row) == 'wrong' for row in wrong)} of {len(wrong)}",
        "contract faults found": f"{sum((row['recipe'], row['function'], code) in told for row, code in contract)}"
        f" of {len(contract)}",
        "gradcheck: wrong found": f"{sum(_fails(row) for row in wrong)} of {len(wrong)}",
        "gradcheck: right ones failed": sum(row["truth"] == "right" and _fails(row) for row in judged),
        "right ones told wrong": sum(row["truth"] == "right" and _verdict(row) == "wrong" for row in judged),
    }


def _verdict(row: dict[str, Any]) -> str:
    """The worst of the inputs' verdicts."""
    said = set(row["verdicts"].values())
    return next((word for word in ("wrong", "surrogate", "unknown") if word in said), "right")


def _fails(row: dict[str, Any]) -> bool:
    return str(row["gradcheck"]["gradcheck"]) != "passes"


def main() -> None:
    recipes = sys.argv[1:] or sorted(path.stem for path in (HERE / "recipes").glob("*.py") if path.stem != "__init__")
    pinned = {pin.name: pin for name, pin in PINS.items() if "==" in name}
    scanned = {name: len(functions_in(fetched(pin))) for name, pin in pinned.items()}
    kept = json.loads(DETAILS.read_text())["rows"] if sys.argv[1:] and DETAILS.exists() else []
    rows = [row for row in kept if row["recipe"] not in recipes] + [row for recipe in recipes for row in run(recipe)]
    rows.sort(key=lambda row: row["recipe"])
    for row in rows:
        for finding in row.get("findings", ()):
            finding["real"] = is_real(row, finding)
    packages = sum(1 for count in scanned.values() if count)
    results = {"all packages": summarised(rows, sum(scanned.values()), packages)}
    DETAILS.parent.mkdir(exist_ok=True, parents=True)
    DETAILS.write_text(json.dumps({"scanned": scanned, "rows": rows}, indent=1, ensure_ascii=False) + "\n")
    save(QUESTION, {"machine": describe_machine(), "results": results})
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
