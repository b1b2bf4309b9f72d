"""Measures the figures of a GPU (on_gpu/), one after the other, and writes each down the moment it is known.

A figure that fails never stops the next. Whoever starts this process kills it where it hangs, and starts it again with
the names that are left. Exit codes: 0, all were tried; 3, the device is lost to this process (a kernel broke its
context, which no later call gets over): start it again with the names that are left; 2, wrong options.

    python benchmarks/run_on_gpu.py --list [--device cuda|cpu] [--small]
    python benchmarks/run_on_gpu.py --into EVENTS.jsonl [--only-file NAMES.txt] [--device cuda|cpu] [--small]

EVENTS gets {"event": "listed", "names": [...]}, then a JSON line before each figure, {"event": "began", "name": ...},
and one after it: {"event": "ended", "name", "outcome": "passed" | "failed" | "skipped", "seconds", "why", "traceback",
"data": {"question", "title", "row", "cells"}}. ``--only-file``: names of figures, one a line. ``--small``: a dry run,
of sizes that a CPU does in seconds; the names of figures tell their sizes, so they differ from those of a real run. On
a CPU there are only dry runs. GRADWRIGHT_GPU_DRY=1 in the environment means ``--device cpu --small``.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import torch
from on_device import set_arithmetic

ROUNDS, SMALL_ROUNDS = 9, 2


def main() -> None:
    is_dry = os.environ.get("GRADWRIGHT_GPU_DRY") == "1"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the names of all figures")
    parser.add_argument("--into", type=Path, help="where events are appended to")
    parser.add_argument("--only-file", type=Path)
    parser.add_argument("--device", default="cpu" if is_dry else "cuda")
    parser.add_argument("--small", action="store_true", default=is_dry)
    options = parser.parse_args()
    is_small = options.small or options.device == "cpu"

    # Before the benchmarks are imported: JAX is a peer on a CPU only, takes seconds to import, and might take a GPU's
    # memory.
    sys.modules["jax"] = None  # type: ignore[assignment]
    from on_gpu.all_figures import list_figures
    from on_gpu.copying import measure_copy_speed
    from on_gpu.figure import Machine
    from on_gpu.running import Events, choose_figures, fail_all, run_figures

    figures = list_figures(is_small)
    if options.list:
        print("\n".join(figure.name for figure in figures))
        return
    if options.into is None:
        parser.error("--into is needed")
    events = Events(options.into)
    names = options.only_file.read_text().splitlines() if options.only_file else None
    chosen = choose_figures(figures, names, events)
    events.write({"event": "listed", "names": [figure.name for figure in chosen]})
    device = torch.device(options.device)
    set_arithmetic(device)
    try:
        speed = measure_copy_speed(device, is_small=is_small)
    except Exception as error:  # no device, or none that works: so it is with all figures
        fail_all(chosen, f"the device copies nothing: {type(error).__name__}: {error}", events)
        return
    machine = Machine(device, is_small, speed, SMALL_ROUNDS if is_small else ROUNDS)
    sys.exit(0 if run_figures(chosen, machine, events) else 3)


if __name__ == "__main__":
    main()
