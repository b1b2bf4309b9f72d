"""What `make gpu` brought back becomes part of this repository: `make gpu-read RESULTS=folder`.

    python tools/read_gpu.py FOLDER

- the figures: benchmarks/results/*.cuda.json, and the docs' tables, where they stand before those of the CPU
- the constants of the planner: a row of src/gradwright/ground/devices.json, by the name of the device
- what failed or was not run: tests/on_gpu/to_mend.md, each with the command that repeats it

Results of a dry run are refused: they say nothing of a GPU.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gpu.results import Result, read_results
from gpu.setting import ROOT

#: The question of the figure that measures the planner's constants.
CONSTANTS = "what_does_a_launch_cost"
#: Where this repository says that nothing ever ran on a GPU.
PAGES = ("README.md", "docs/what_it_cant_see.md", "docs/how_it_works.md", "docs/howto/formulas.md")


def find_machine(results: Sequence[Result]) -> dict[str, Any]:
    """What the machine was.  Raises: SystemExit where that is not known, or was a dry run's."""
    for result in results:
        if result.step == "machine" and result.name == "machine" and result.outcome == "passed":
            if result.data["device"] != "cuda":
                sys.exit("these are the results of a dry run on a CPU: nothing is taken from them")
            return result.data
    sys.exit("it is not known what machine this was: its step failed, see failures.txt; nothing is taken from them")


def write_figures(results: Iterable[Result], machine: dict[str, Any], folder: Path) -> list[Path]:
    """A file for each question of which at least one row was measured; what failed stands in its notes."""
    described = {key: machine[key] for key in ("date", "device", "cores", "python", "torch")}
    described |= {"cpu": machine["name"], "allocator": "CUDA caching allocator"}  # as benchmarks/on_device.py has it
    questions: dict[str, dict[str, Any]] = {}
    for result in results:
        question = result.name.partition(":")[0]
        if result.step != "figures":
            continue
        data = questions.setdefault(question, {"machine": described, "results": {}, "tables": {}, "notes": []})
        if result.outcome != "passed":
            data["notes"].append(f"{result.name}: {result.outcome}. {result.why}")
            continue
        title, row = result.data["title"], result.data["row"]
        rows = data["tables"].setdefault(title, {}) if title else data["results"]
        rows[row] = result.data["cells"]
    written = []
    for question, data in questions.items():
        if data["results"] or data["tables"]:
            path = folder / f"{question}.cuda.json"
            path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", "utf-8")
            written.append(path)
    return written


def write_constants(results: Iterable[Result], machine: dict[str, Any], path: Path) -> bool:
    """Put the row of this device into the table of devices; whether there was one."""
    for result in results:
        if result.step == "figures" and result.name.startswith(f"{CONSTANTS}:") and result.outcome == "passed":
            table = json.loads(path.read_text("utf-8"))
            measured = f"{machine['date']}, torch {machine['torch']}"
            rates = dict(result.data["cells"])
            table[machine["name"]] = {"measured": measured, "rows_together": rates.pop("rows_together"), "rates": rates}
            path.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n", "utf-8")
            return True
    return False


def write_failures(results: Sequence[Result], machine: dict[str, Any], path: Path) -> int:
    """A list of what has to be mended or run another time; how many there are."""
    missing = [result for result in results if not result.is_fine]
    lines = [
        "# To mend on a GPU",
        "",
        f"Written by `make gpu-read`: {machine['name']}, torch {machine['torch']}, {machine['date']}. "
        f"{len(missing)} of {len(results)} failed or were not run.",
    ]
    for result in missing:
        lines += ["", f"- **{result.outcome}** `{result.name}`", f"  {result.why or 'no reason is known'}"]
        lines += [f"  Again: `{command}`"] if (command := _write_command(result)) else []
        if result.traceback:
            last = [f"    {line}" for line in result.traceback.rstrip().splitlines()[-12:]]
            lines += ["", "  ```text", *last, "  ```"]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return len(missing)


def _write_command(result: Result) -> str:
    if result.step == "tests" and "::" in result.name:
        return f"python3 -m pytest -m gpu '{result.name}'"
    if result.step == "doctor":
        return f"python3 -m gradwright diagnose tools/gpu/scripts/{result.name}.py --device cuda"
    return ""


def read(folder: Path, root: Path) -> list[str]:
    """Take over everything; what was done, in a line each."""
    results = list(read_results(folder))
    machine = find_machine(results)
    said = [
        f"wrote {path.relative_to(root)}" for path in write_figures(results, machine, root / "benchmarks" / "results")
    ]
    table = root / "src" / "gradwright" / "ground" / "devices.json"
    there = write_constants(results, machine, table)
    said.append(f"{machine['name']} {'stands' if there else 'was not measured, so it does not stand'} in {table.name}")
    to_mend = root / "tests" / "on_gpu" / "to_mend.md"
    said.append(f"{write_failures(results, machine, to_mend)} to mend: {to_mend.relative_to(root)}")
    return said


def main() -> int:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for line in read(Path(sys.argv[1]), ROOT):
        print(line)
    subprocess.run([sys.executable, ROOT / "benchmarks" / "table.py"], check=True)
    subprocess.run([sys.executable, ROOT / "tools" / "generate.py"], check=True)
    print(f"Read again what is said of GPUs in {', '.join(PAGES)}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
