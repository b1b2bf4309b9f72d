"""What a machine is: printed as JSON, by ``python tools/gpu/machine.py [--device cpu]``."""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

PACKAGES = (
    *("torch", "triton", "numpy", "numba", "llvmlite", "click", "rich", "jinja2", "libcst", "pytest", "hypothesis"),
    *("expecttest", "liger-kernel"),
)


def describe_machine(device: str) -> dict[str, Any]:
    """Of a CUDA device also what decides about speed: memory, cache, processors, driver."""
    import torch

    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    found: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "device": device,
        "name": device,
        "cpu": next((line.split(":")[1].strip() for line in lines if "model name" in line), platform.processor()),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "packages": {name: _version(name) for name in PACKAGES},
    }
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        found |= {
            "name": properties.name,
            "memory_bytes": properties.total_memory,
            "cache_bytes": properties.L2_cache_size,
            "processors": properties.multi_processor_count,
            "capability": f"{properties.major}.{properties.minor}",
            "cuda": torch.version.cuda,
            "driver": _ask_driver(),
        }
    return found


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not there"


def _ask_driver() -> str:
    words = ["nvidia-smi", "--query-gpu=driver_version,clocks.sm,clocks.mem,power.limit", "--format=csv,noheader"]
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        return f"not known: {error}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    print(json.dumps(describe_machine(parser.parse_args().device)))
