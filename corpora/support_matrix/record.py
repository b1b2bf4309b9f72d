"""Run all cells and write what came of them: `python -m corpora.support_matrix.record`, where jax and
HIPS autograd can be imported (`make test-peers` sets such an environment up); with `--keep-peers` anywhere: what
was recorded of those two stays.

The compiled cells run with Inductor too, and have to come out as they do with the quicker back end of the tests.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from .matrix import COLUMNS, PEER_COLUMNS, TORCH_COLUMNS, rows, verdict
from .programs import compiled
from .together.judged import CASES, judged

RECORD = Path(__file__).parents[2] / "benchmarks" / "results" / "details" / "support_matrix.json"
_PACKAGES = {"torch": "torch", "jax": "jax", "HIPS autograd": "autograd", "NumPy": "numpy"}
_PEER_PACKAGES = ("jax", "autograd")


def record(kept: dict[str, Any] | None = None) -> dict[str, Any]:
    """All verdicts, by row and column; those of the peers from ``kept``, an earlier record, if there is one."""
    cells: dict[str, dict[str, dict[str, str]]] = {}
    for row in rows():
        cells[row.name] = {}
        for name in COLUMNS:
            if kept and name in PEER_COLUMNS:
                cells[row.name][name] = kept["cells"][row.name][name]
                continue
            found = verdict(name, row)
            if name in TORCH_COLUMNS and "compiled" in row.name:
                _require_the_same(name, row, found)
            print(f"{row.title}, {name}: {found.word}", file=sys.stderr)
            cells[row.name][name] = {"word": found.word, "told": found.told}
    versions = {
        name: kept["machine"][name] if kept and package in _PEER_PACKAGES else version(package)
        for name, package in _PACKAGES.items()
    }
    today = datetime.date.today().isoformat()
    machine = {
        "date": today,
        "peers": kept["machine"]["peers"] if kept else today,
        "device": "cpu",
        "python": platform.python_version(),
    }
    return {"machine": machine | versions, "cells": cells, "together": record_together()}


def record_together() -> dict[str, dict[str, str]]:
    """The words of ours, by transform and kind."""
    words: dict[str, dict[str, str]] = {}
    for transform, kind in CASES:
        words.setdefault(transform.__name__, {})[kind.name] = judged(transform, kind).word
        print(f"{transform.__name__}, {kind.name}: {words[transform.__name__][kind.name]}", file=sys.stderr)
    return words


def _require_the_same(name: str, row: Any, found: Any) -> None:
    compiled.BACKEND, quick = "inductor", compiled.BACKEND
    try:
        slow = verdict(name, row)
    finally:
        compiled.BACKEND = quick
    if slow.word != found.word:
        raise SystemExit(f"{row.title}, {name}: {found} with {quick}, {slow} with inductor")


def load() -> dict[str, Any]:
    """What was recorded last."""
    recorded: dict[str, Any] = json.loads(RECORD.read_text())
    return recorded


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":")[0])
    parser.add_argument("--keep-peers", action="store_true", help="run the torch columns only")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    RECORD.write_text(json.dumps(record(load() if asked.keep_peers else None), indent=1, ensure_ascii=False) + "\n")
