"""One recipe, every case of it, in a process of its own: packages disagree about what else may be imported.

python benchmarks/wild/judge.py entmax        prints one JSON object a line
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

import gradwright as gw
from wild.by_gradcheck import by_gradcheck
from wild.by_hand import gaps, second_gap
from wild.case import Case

SECONDS = 40.0


def judged(item: Case, explained: Mapping[str, str]) -> dict[str, Any]:
    """What differences say and what gradwright says of one case; ``explained``: its recipe's ``REAL``."""
    row: dict[str, Any] = {
        "function": item.name,
        "truth": item.truth,
        "why": item.why,
        "real": dict(item.real),
        "explained": dict(explained),
    }
    try:
        row["by_hand"] = gaps(item.subject, item.inputs)
    except Exception as error:
        row["by_hand"] = {"raised": f"{type(error).__name__}: {error}"[:200]}
    row["second by_hand"] = second_gap(item.subject, item.inputs)
    row["gradcheck"] = by_gradcheck(item.subject, item.inputs)
    started = time.perf_counter()
    try:
        report = gw.check(item.subject, *item.inputs, seconds=SECONDS)
    except Exception as error:
        return {**row, "raised": f"{type(error).__name__}: {error}"[:300], "findings": [], "verdicts": {}}
    row["seconds"] = round(time.perf_counter() - started, 2)
    row["verdicts"] = {verdict.name: verdict.verdict for verdict in report.verdicts}
    row["findings"] = [
        {
            "code": finding.code,
            "severity": finding.severity,
            "cause": finding.cause,
            "input": finding.input,
            "message": finding.message[:300],
            "why": finding.why[:300],
        }
        for finding in report.findings
    ]
    row["not_checked"] = [str(line)[:200] for line in report.not_checked]
    return row


def main(name: str, only: str = "") -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    try:
        recipe = importlib.import_module(f"wild.recipes.{name}")
        for item in recipe.cases():
            if only in item.name:
                print(json.dumps(judged(item, getattr(recipe, "REAL", {}))), flush=True)
    except Exception:
        print(json.dumps({"function": "", "broken": traceback.format_exc()[-600:]}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
