"""docs/measured/public_faults.md, from the details of the last run and the record of what was looked at."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from are_public_faults_caught import DETAILS, QUESTION
from recording import RESULTS

from public_faults.history import RECORD

PAGE = Path(__file__).parents[2] / "docs" / "measured" / "public_faults.md"
TOP = """# Public faults, replayed

Written by `python benchmarks/public_faults/page.py` from the last run of `benchmarks/are_public_faults_caught.py`.
Each is a gradient fault of a package on PyPI that a later version fixed; `gw.check` runs on both versions, and central
differences with no part of gradwright in them beside it.
"""
AFTER = {
    "GW106": "real: what the backward uses was saved without its graph; the second derivative is silently lost",
    "GW213": "real, fixed in deepspeed 0.9.2: the module's tensor_map keeps weights",
    "GW210": "real, fixed in deepspeed 0.17.4: a frozen weight makes the bias' gradient die",
    "GW103": "real: at equal eigenvalues degen_symeig drops the term that a function of the matrix needs",
}


def page() -> str:
    details = json.loads(DETAILS.read_text())
    results = json.loads((RESULTS / f"{QUESTION}.cpu.json").read_text())["results"]
    parts = [TOP]
    caught = sum(row["caught before"] and row["silent after"] for row in results.values())
    named = sum(row["cause named"] for row in results.values())
    seen = [sum(row[judge] for row in results.values()) for judge in ("gradcheck sees it", "with gradgradcheck")]
    parts.append(
        f"{caught} of {len(results)} are caught before and gone after, {named} with the cause that was fixed; "
        f"gradcheck sees {seen[0]}, gradcheck and gradgradcheck {seen[1]}.\n"
    )
    for (title, row), told in zip(results.items(), details.values(), strict=True):
        parts += [
            f"## {title}\n",
            f"{row['versions']}. {told['what'][0].upper()}{told['what'][1:]}. Source: {told['source']}.\n",
        ]
        parts += ["| | gap by hand | gw.check | gradcheck |", "|---|---|---|---|"]
        for when in ("before", "after"):
            report = told[when]
            found = (
                ", ".join(f"{item['code']} ({item['cause']}, {item['input']})" for item in report["findings"])
                or "nothing"
            )
            gap = " ".join(str(value) for value in report.get("by_hand", {}).values())
            said = report["gradcheck"].get("gradcheck", "")[:90]
            parts.append("| " + " | ".join(text.replace("|", "\\|") for text in (when, gap, found, said)) + " |")
        others = [code for code in row["other findings after"].split(", ") if code != "none"]
        parts += ["", *(f"{code} after: {AFTER.get(code, 'not adjudicated')}." for code in others), ""]
    record = json.loads(RECORD.read_text())
    steps = sum(max(versions - 1, 0) for versions, _, _ in record.values())
    changes = sum(changed for _, _, changed in record.values())
    parts += [
        "## Where we looked\n",
        f"{len(record)} packages of PyPI, {steps} steps from one version to the next (up to 14 versions a package,",
        f"evenly chosen; up to 60 for some): {changes} backwards changed, and their diffs were skimmed",
        "(`python benchmarks/public_faults/history.py`), those of colossalai, fairscale, megatron-core, mmcv, nemo and",
        "k2 only in part; most changes are names, types, devices, new arguments. Left out are faults in CUDA, Triton",
        "and C++ (torchsort 0.0.5, theseus-ai 0.1.3, nerfacc, parts of deepspeed), in collectives of several",
        "machines, and where this torch can't load the old version (qpth before 0.0.13: Functions that aren't static).",
        "POT 0.9.4 (a sign in gromov_wasserstein2 with kl_loss, PR 610) needs a NumPy older than the rest here. Stored",
        "issue threads were searched for three of the faults, and gave their sources.",
        "",
        ", ".join(f"{name} ({count} versions, {changed} changes)" for name, (count, _, changed) in record.items())
        + ".",
    ]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
