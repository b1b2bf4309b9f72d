"""One fault at one version, in a process of its own: prints a JSON object.

python benchmarks/public_faults/replay.py entmax_squeeze before
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from wild.by_gradcheck import by_gradcheck
from wild.by_hand import gaps

import gradwright as gw
from public_faults.fault import Fault, loader


def main(name: str, when: str) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    fault: Fault = importlib.import_module(f"public_faults.faults.{name}").FAULT
    subject, inputs = fault.call(loader(fault.before if when == "before" else fault.after))
    row: dict[str, Any] = {}
    try:
        row["by_hand"] = gaps(subject, inputs)
    except Exception as error:
        row["by_hand"] = {"raised": f"{type(error).__name__}: {error}"[:200]}
    row["gradcheck"] = by_gradcheck(subject, inputs)
    report = gw.check(subject, *inputs)
    row["findings"] = [
        {"code": finding.code, "severity": finding.severity, "cause": finding.cause, "input": finding.input,
         "message": finding.message[:300], "why": finding.why[:300]}
        for finding in report.findings
    ]  # fmt: skip
    row["verdicts"] = {verdict.name: verdict.verdict for verdict in report.verdicts}
    row["not_checked"] = [str(line)[:200] for line in report.not_checked]
    print(json.dumps(row))


if __name__ == "__main__":
    main(*sys.argv[1:])
