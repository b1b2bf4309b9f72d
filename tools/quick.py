"""The tests that a change calls for first, in at most three minutes: `make quick`, or `make quick SINCE=main~3`.

What has changed since a commit decides; without one, what is not committed, or the last commit where everything is.
First come changed tests and the tests of changed modules, then those of the rooms that import them, step by step along
the imports, as far as the time allows by what each file took in tests/durations.json; then 40 whole runs of the doctor,
those of changed rules among them. What there was no time for is said: `make test` is everything.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
SECONDS = 150  # of two workers together, on the machine of durations.json
DOCTOR_RUNS = 40
UNKNOWN = 5.0  # seconds of a file of tests that durations.json does not have
CASE = "tests/test_cases.py::test_the_bad_script_has_the_finding_and_looks_like_its_golden"
#: The tests of what is no module of ours and no test.
OTHERS = {
    "benchmarks": ("tests/test_measured.py",),
    "corpora": ("tests/test_training_scripts.py", "tests/functions/custom_gradient", "tests/functions/derive"),
    "docs": ("tests/docs", "tests/test_names.py"),
    "examples": ("tests/test_examples.py", "tests/examples"),
    "tools": ("tests/test_measured.py", "tests/release"),
}


@dataclass
class Choice:
    """Test files that are run, in order, and those that there is no time for."""

    chosen: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def list_changes(since: str) -> list[str]:
    """Paths of files that differ from the commit ``since``, or that git does not know yet."""
    known = _git("diff", "--name-only", since)
    return sorted({*known, *_git("ls-files", "--others", "--exclude-standard")})


def rank_modules(changed: Iterable[str]) -> dict[str, int]:
    """How many imports lie between each module of gradwright and the changed one that is nearest.

    a imports b, b imports c, and c has changed: c 0, b 1, a 2. What reaches no changed module is left out.
    """
    graph = grimp.build_graph("gradwright", cache_dir=None)
    ranks = {name: 0 for name in map(_module_of, changed) if name in graph.modules}
    frontier = list(ranks)
    while frontier:
        nearest = ranks[frontier[0]] + 1
        importers = {name for module in frontier for name in graph.find_modules_that_directly_import(module)}
        frontier = sorted(importers - ranks.keys())
        ranks |= dict.fromkeys(frontier, nearest)
    return ranks


def rank_tests(changed: list[str], files: Iterable[str]) -> dict[str, float]:
    """For each file of tests that the changes concern: the lower, the sooner it is run.

    A module's own file (tests mirror src) has the module's rank, other files of its room half a step more. A changed
    module is among them itself: its docstrings have examples.
    """
    ranks: dict[str, float] = {}
    rooms: dict[str, float] = {}
    for module, rank in rank_modules(changed).items():
        room, _, name = module.removeprefix("gradwright").lstrip(".").replace(".", "/").rpartition("/")
        ranks[f"tests/{room}/test_{name}.py".replace("//", "/")] = rank
        rooms[room] = min(rank, rooms.get(room, rank))
    found: dict[str, float] = {}
    for file in files:
        room = str(Path(file).parent).removeprefix("tests").lstrip("/")
        far = min(ranks.get(file, float("inf")), rooms.get(room, float("inf")) + 0.5)
        if any(_concerns(path, file) for path in changed):
            far = -1
        if far < float("inf"):
            found[file] = far
    modules = (path for path in changed if path.startswith("src/") and path.endswith(".py"))
    return found | {path: -1.0 for path in modules if (ROOT / path).is_file()}


def choose(ranks: dict[str, float], seconds: dict[str, float], budget: float) -> Choice:
    """The first files by rank, the quickest first among equals, whose seconds fit into the budget."""
    choice = Choice()
    for file in sorted(ranks, key=lambda file: (ranks[file], seconds.get(file, UNKNOWN))):
        budget -= seconds.get(file, UNKNOWN)
        (choice.chosen if budget >= 0 else choice.left_out).append(file)
    return choice


def doctor_runs(changed: list[str], slow: Iterable[str]) -> list[str]:
    """Tests of 40 cases: those of changed rules and cases, then others evenly, without the slow ones."""
    codes = sorted(path.parent.name for path in ROOT.glob("tests/cases/*/bad.golden.txt"))  # what the doctor tells
    own = [code for path in changed for code in _codes_of(path) if code in codes]
    others = [code for code in codes if code not in own and f"{CASE}[{code}]" not in slow]
    wanted = max(0, DOCTOR_RUNS - len(own))
    evenly = [others[at * len(others) // wanted] for at in range(wanted)] if wanted else []
    return [f"{CASE}[{code}]" for code in dict.fromkeys([*own, *evenly])]


def _codes_of(path: str) -> Iterator[str]:
    if path.startswith("tests/cases/"):
        yield path.split("/")[2]
    elif path.startswith("src/gradwright/doctor/rules/") and (ROOT / path).is_file():
        yield from re.findall(r'"(GW\d{3})"', (ROOT / path).read_text())


def _concerns(changed: str, file: str) -> bool:
    """Whether a changed path is this file of tests, stands in its folder, or is what it tests outside of src."""
    top = changed.split("/")[0]
    if top == "tests":
        helper = not Path(changed).name.startswith("test_") and changed.count("/") > 1
        return changed == file or (helper and file.startswith(f"{Path(changed).parent}/"))
    return file.startswith(OTHERS.get(top, ()))


def _module_of(path: str) -> str:
    return path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"quick: git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.splitlines()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--since", default="", help="a commit; without it HEAD, or HEAD~1 where nothing has changed")
    parser.add_argument("--list", action="store_true", help="say what would be run, and run nothing")
    asked = parser.parse_args()
    since = asked.since or "HEAD"
    changed = list_changes(since)
    if not changed and not asked.since:
        since = "HEAD~1"
        changed = list_changes(since)
    took = json.loads((ROOT / "tests" / "durations.json").read_text())
    seconds = {name: float(value) for name, value in took["files"].items()}
    cases = doctor_runs(changed, took["slow tests"])
    files = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "tests").rglob("test_*.py"))]
    files = [file for file in files if not file.startswith(("tests/cases/", "tests/real/", CASE.partition("::")[0]))]
    spent = sum(seconds.get(name, 1.0) for name in cases)
    choice = choose(rank_tests(changed, files), seconds, 2 * SECONDS - spent)
    print(f"changed since {since}: {len(changed)} files")
    print("\n".join(f"  {file}" for file in choice.chosen))
    print(f"{len(choice.chosen)} files of tests, and {len(cases)} runs of the doctor")
    if choice.left_out:
        print(f"no time for {len(choice.left_out)} more that the change may concern; `make test` runs them all")
    sys.stdout.flush()
    if asked.list:
        return 0
    words = ["-m", "pytest", "-n", "2", "--dist", "loadgroup", "-q", "-m", "not peers", *choice.chosen, *cases]
    return subprocess.run([sys.executable, *words], cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}).returncode


if __name__ == "__main__":
    sys.exit(main())
