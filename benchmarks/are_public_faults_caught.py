"""Are gradient faults that were published, and later fixed, caught before the fix and gone after it?

Every file of public_faults/faults names a package, the last version with the fault and the first without, and one
call. Both versions are downloaded (public_faults/requirements.txt, by SHA-256) and judged by `gw.check` at level
standard, gradcheck and gradgradcheck, each in a process of its own. Caught: the fix's code is reported before, with
its cause, and not after. What else is reported after the fix is listed: it is another fault, or a false alarm
(docs/measured/public_faults.md says which).

    GRADWRIGHT_WILD=/somewhere/big python benchmarks/are_public_faults_caught.py [fault ...]
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from public_faults.fault import Fault
from recording import RESULTS, describe_machine, save

HERE = Path(__file__).parent / "public_faults"
QUESTION = "are_public_faults_caught"
DETAILS = RESULTS / "details" / f"{QUESTION}.json"


def replay(name: str, when: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(HERE / "replay.py"), name, when],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "TORCHDYNAMO_DISABLE": "1"},  # torch.compile needs a compiler, and is not the question
    )
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return rows[-1] if rows else {"broken": done.stderr[-600:], "findings": [], "gradcheck": {}}


def row(fault: Fault, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    hits = [finding for finding in before["findings"] if finding["code"] == fault.code]
    others = sorted({finding["code"] for finding in after["findings"] if finding["code"] != fault.code})
    return {
        "versions": f"{fault.before} → {fault.after.split('==')[1]}",
        "fault": fault.code,
        "caught before": bool(hits),
        "cause named": any(finding["cause"] == fault.cause for finding in hits),
        "silent after": not any(finding["code"] == fault.code for finding in after["findings"]),
        "other findings after": ", ".join(others) or "none",
        "gradcheck sees it": _sees(before, after, "gradcheck"),
        "with gradgradcheck": _sees(before, after, "gradcheck") or _sees(before, after, "gradgradcheck"),
    }


def _sees(before: dict[str, Any], after: dict[str, Any], judge: str) -> bool:
    """It says no before and not the same no after."""
    said = before["gradcheck"].get(judge, "passes")
    return bool(said != "passes" and after["gradcheck"].get(judge, "passes") == "passes")


def main() -> None:
    names = sys.argv[1:] or sorted(path.stem for path in (HERE / "faults").glob("*.py") if path.stem != "__init__")
    results, details = {}, {}
    for name in names:
        fault: Fault = importlib.import_module(f"public_faults.faults.{name}").FAULT
        told = {when: replay(name, when) for when in ("before", "after")}
        details[name] = {"what": fault.what, "source": fault.source, "cause": fault.cause, **told}
        results[f"{fault.before.split('==')[0]}: {fault.function}"] = row(fault, told["before"], told["after"])
        print(name, json.dumps(results[f"{fault.before.split('==')[0]}: {fault.function}"]), file=sys.stderr)
    if sys.argv[1:]:
        return
    DETAILS.parent.mkdir(exist_ok=True, parents=True)
    DETAILS.write_text(json.dumps(details, indent=1, ensure_ascii=False) + "\n")
    save(QUESTION, {"machine": describe_machine(), "results": results})


if __name__ == "__main__":
    main()
