"""What a machine is, printed as JSON; of ours it imports ``recording`` alone, so that it is known whatever breaks."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import subprocess
from typing import Any

import recording  # of benchmarks/, which `make gpu` puts on the path of what it starts

PACKAGES = (
    *("torch", "triton", "numpy", "numba", "llvmlite", "click", "rich", "jinja2", "libcst", "pytest", "hypothesis"),
    *("expecttest", "liger-kernel"),
)


def describe_machine(device: str) -> dict[str, Any]:
    """Of a CUDA device also what decides about speed: memory, cache, processors, driver."""
    import torch

    found: dict[str, Any] = recording.describe_machine() | {
        "device": device,
        "name": device,
        "packages": {name: _find_version(name) for name in PACKAGES},
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


def _find_version(package: str) -> str:
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
