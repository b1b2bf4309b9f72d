"""Where results are kept: one JSON file per question and device, with the machine described beside the figures."""

from __future__ import annotations

import datetime
import json
import os
import platform
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def describe_machine() -> dict[str, Any]:
    import torch

    cpu = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.processor(),
    )
    return {
        "date": datetime.date.today().isoformat(),
        "device": "cpu",
        "cpu": cpu,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "allocator": "glibc, as it comes"
        if not any(name.startswith("MALLOC_") for name in os.environ)
        else ", ".join(f"{name}={value}" for name, value in os.environ.items() if name.startswith("MALLOC_")),
    }


def save(question: str, data: dict[str, Any]) -> None:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{question}.{data['machine']['device']}.json"
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")
