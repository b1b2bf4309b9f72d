"""What the tools said, held against what was planted, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from corpora.training_scripts.doctor import Ran
from corpora.training_scripts.judging import judged
from corpora.training_scripts.plant import Plant
from corpora.training_scripts.plants import half_of

Row = dict[str, Any]


def row_of_clean(script: str, ran: Ran) -> Row:
    counts = Counter(said.severity for said in ran.said)
    return {
        "script": script,
        "errors": counts["error"],
        "warnings": counts["warning"],
        "infos": counts["info"],
        "exit code": ran.exit_code,
        **_what(ran),
    }


def row_of_plant(plant: Plant, ran: Ran) -> Row:
    verdict = judged(plant, ran)
    return {
        "family": plant.family,
        "half": half_of(plant),
        "script": plant.script,
        "what": plant.what,
        "codes": list(plant.codes),
        "lines": sorted(plant.lines()),
        "found": verdict.found,
        "as information only": verdict.found and not verdict.loud,
        "right line": verdict.line,
        "right line and cause": verdict.cause,
        "besides": list(verdict.besides),
        **_what(ran),
    }


def _what(ran: Ran) -> Row:
    answer = ran.as_answer()
    return {"seconds": round(ran.seconds, 2), "said": answer["said"], "faults of ours": answer["faults_of_ours"]}


def summary_of_plants(rows: Iterable[Row]) -> Row:
    rows = list(rows)
    return {
        "planted": len(rows),
        "found": sum(row["found"] for row in rows),
        "of them as information only": sum(row["as information only"] for row in rows),
        "right line": sum(row["right line"] for row in rows),
        "right line and cause": sum(row["right line and cause"] for row in rows),
        "with other errors or warnings besides": sum(bool(row["besides"]) for row in rows),
    }


def summary_of_clean(rows: list[Row]) -> Row:
    return {
        "clean scripts": len(rows),
        "errors": sum(row["errors"] for row in rows),
        "warnings": sum(row["warnings"] for row in rows),
        "infos": sum(row["infos"] for row in rows),
        "faults of the doctor's own": sum(len(row["faults of ours"]) for row in rows),
        "seconds a script": round(sum(row["seconds"] for row in rows) / max(len(rows), 1), 2),
    }


def by_family(rows: list[Row]) -> dict[str, Row]:
    found = {"all plants": summary_of_plants(rows)}
    for half in ("first", "second"):
        found[f"{half} half"] = summary_of_plants(row for row in rows if row["half"] == half)
    for family in dict.fromkeys(row["family"] for row in rows):
        found[family] = summary_of_plants(row for row in rows if row["family"] == family)
    return found


def trouble(row: Row) -> str:
    """A clean script that is not silent, a plant that is not told as it should be; "" if all is well."""
    told = "; ".join(f"{said['code']} {said['severity']} :{said['line']}" for said in row["said"]) or "nothing"
    ours = f" {row['faults of ours']}" if row["faults of ours"] else ""
    if "what" not in row:
        loud = row["errors"] or row["warnings"] or row["exit code"] != 0 or ours
        return f"clean {row['script']}: exit {row['exit code']}, {told}{ours}" if loud else ""
    missing = next((key for key in ("found", "right line", "right line and cause") if not row[key]), "")
    if not (missing or row["besides"] or ours):
        return ""
    head = f"not {missing}" if missing else "besides"
    wanted = f"wanted {'/'.join(row['codes'])} at {row['lines']}"
    return f"{head}: [{row['family']}] {row['script']}: {row['what']}: {told} ({wanted}){ours}"


def row_of_peer(plant: Plant, clean: Row, planted: Row) -> Row:
    """Found: it says of the planted script what it does not say of the clean one."""
    before = {said["id"] for said in clean["said"]}
    new = [said for said in planted["said"] if said["id"] not in before]
    return {
        "family": plant.family,
        "script": plant.script,
        "what": plant.what,
        "found": bool(new),
        "right line": any(line in plant.lines() for said in new for line in said["lines"]),
        "failed": planted["failed"],
        "said": new,
        "seconds": round(planted["seconds"], 2),
    }


def summary_of_peer(rows: list[Row], clean: list[Row], names_lines: bool) -> Row:
    return {
        "planted, where it applies": len(rows),
        "found": sum(row["found"] for row in rows),
        "right line": sum(row["right line"] for row in rows) if names_lines else "names none",
        "could not run": sum(bool(row["failed"]) for row in rows),
        "clean scripts": len(clean),
        "clean scripts it speaks of": sum(bool(row["said"]) for row in clean),
        "said of them": sum(len(row["said"]) for row in clean),
        "seconds a script": round(sum(row["seconds"] for row in rows) / max(len(rows), 1), 2),
    }
