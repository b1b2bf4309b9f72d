"""Writes what is made from something else in this repository, so that no copy is kept by hand.

    python tools/generate.py            write it
    python tools/generate.py --check    write nothing, name what differs, exit 1 if anything does

A further thing is one function that returns path -> text (and the folders it fills alone), and one entry in ``MADE``.
"""

from __future__ import annotations

import argparse
import functools
import inspect
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradwright.doctor.render.rule_pages import rule_page, rules_index
from gradwright.doctor.rules import all_rules

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools"), str(ROOT / "tools" / "site")]

from command_line import command_line_page  # noqa: E402
from measured import blocks, filled  # noqa: E402  beside this file, also when a test runs it by its path
from tests.reports import Made as Report  # noqa: E402
from tests.reports import kept_or_made  # noqa: E402


@dataclass(frozen=True)
class Made:
    """Files by path below the root. A file in one of ``folders`` (by glob) that is not among them is stale.

    ``gist``: what has to agree of a text, where not all of it can.
    """

    files: dict[str, str]
    folders: tuple[str, ...] = ()
    gist: Callable[[str], object] = str


def rule_pages(root: Path) -> Made:
    """docs/rules: a page per rule, and the index."""
    rules = all_rules()
    files = {f"docs/rules/{loaded.rule.code}.md": rule_page(loaded, root / "tests" / "cases") for loaded in rules}
    files["docs/rules/index.md"] = rules_index(rules)
    return Made(files, folders=("docs/rules/*.md",))


def checks_page(root: Path) -> Made:
    """docs/reference/checks.md: what `gw.check` and `gw.check_loss` ask, from the docstrings."""
    from gradwright.checking.checks import all_checks
    from gradwright.checking.losses.properties import all_properties

    parts = [
        "<!-- Made by `python tools/generate.py` from the docstrings of the checks: edit those. -->",
        "# What is checked",
        "`gw.check` makes the checks of its level: *quick* those marked so, *standard* all of them (without "
        "`torch.compile`), *full* with it. Each stands in a file of its own under `src/gradwright/checking/checks`.",
        *(_section(check) for check in all_checks()),
        "# What is asked of a loss",
        "`gw.check_loss` asks for these properties, in this order; a root comes before what follows from it.",
        *(_section(held) for held in all_properties()),
    ]
    return Made({"docs/reference/checks.md": "\n\n".join(parts) + "\n"})


def _section(check: Any) -> str:
    page = inspect.cleandoc(sys.modules[check.run.__module__].__doc__ or "")
    page = re.sub(r"^Check \d+\. ", "", page).replace("``", "`")
    codes = ", ".join(f"[{code}](../rules/{code}.md)" for code in check.names)
    return f"## {check.number}. {check.title}\n\nFrom level {check.since} on · {codes}\n\n{page}"


def command_line_pages(root: Path) -> Made:
    """docs/reference/command_line.md: every command and option."""
    return Made({"docs/reference/command_line.md": command_line_page()})


def support_matrix_page(root: Path) -> Made:
    """docs/reference/support_matrix.md: what a custom gradient survives, from the recorded cells."""
    from corpora.support_matrix.page import page

    return Made({"docs/reference/support_matrix.md": page()})


def exercises_page(root: Path) -> Made:
    """docs/exercises.md: the tasks of `gradwright exercise`, from their folders."""
    from gradwright.exercises.page import page

    return Made({"docs/exercises.md": page()})


_TRANSCRIPT = re.compile(r"<!-- transcript: (?P<command>.+?) -->\n.*?<!-- /transcript -->", re.DOTALL)
_OUTPUT = re.compile(r"<!-- output: (?P<script>.+?) -->\n.*?<!-- /output -->", re.DOTALL)
_COUNTEREXAMPLE = re.compile(r"(counterexample, .*?\n\n(?:#[^\n]*\n)+).*", re.DOTALL)
_TIME = re.compile(r"\d[\d.,]* (?:s|ms|us|ns|calls|inputs)\b|\d+ %")
_LATE = re.compile(r"(?:^| · )not examined:(?=[^`]*\btime\s+limit\b)[^\n]*(?:\n +[^\n]+)*", re.M)
_INFORMATION = re.compile(r"^GW\d+ info .*?(?=^GW\d|^\d+ finding|^nothing wrong)|^\d+ findings?[^\n]*", re.S | re.M)


def told_pages(root: Path) -> Made:
    """README.md and docs/: what the doctor or a script says of a shipped example, as measured here and now."""
    files = {}
    for path in (root / "README.md", *sorted(root.glob("docs/**/*.md"))):
        text = path.read_text() if path.is_file() else ""
        told = _TRANSCRIPT.sub(lambda found: _transcript(root, found["command"]), text)
        told = _OUTPUT.sub(lambda found: _output(root, found["script"]), told)
        if _TRANSCRIPT.search(text) or _OUTPUT.search(text):
            files[path.relative_to(root).as_posix()] = told
    return Made(files, gist=_without_times)


@functools.cache
def _transcript(root: Path, command: str) -> str:
    """What the doctor says of an example; what it has said before of the same one is read again, as the tests do."""
    words = shlex.split(command)
    (script,) = (root / word for word in words if word.endswith(".py"))

    def make() -> Report:
        with tempfile.TemporaryDirectory() as folder:
            given = ["diagnose", "--session", str(Path(folder) / "session.json"), *words]
            return Report("", _printed(root, "-m", "gradwright", *given), "")

    stdout = kept_or_made(script.parent, {"printed": command}, make).stdout
    shown = f"$ gradwright diagnose {command}\n\n{stdout.rstrip()}"
    return f"<!-- transcript: {command} -->\n```text\n{shown}\n```\n<!-- /transcript -->"


@functools.cache
def _output(root: Path, script: str) -> str:
    """What a script prints, the counterexample by its first lines only."""
    shown = _COUNTEREXAMPLE.sub(r"\1...", _printed(root, script).rstrip())
    return f"<!-- output: {script} -->\n```text\n$ python {script}\n\n{shown}\n```\n<!-- /output -->"


def _printed(root: Path, *words: str) -> str:
    done = subprocess.run([sys.executable, *words], cwd=root, capture_output=True, text=True, timeout=600)
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr)
    return done.stdout


def _without_times(text: str) -> list[str]:
    """The words, without what hangs on a stopwatch: times, what was tried or too late, line breaks, hints of speed."""
    return _TIME.sub("<time>", " ".join(_INFORMATION.sub("", _LATE.sub("", text)).split())).split()


def measured_pages(root: Path) -> Made:
    """Pages of docs/ with figures: the tables between `<!-- measured: RESULT/TABLE -->` and `<!-- /measured -->`."""
    texts = {path: path.read_text() for path in sorted(root.glob("docs/**/*.md"))}
    results = root / "benchmarks" / "results"
    files = {
        path.relative_to(root).as_posix(): filled(text, results)
        for path, text in texts.items()
        if "<!-- measured:" in text
    }
    return Made(files, gist=blocks)


MADE: tuple[Callable[[Path], Made], ...] = (
    rule_pages,
    checks_page,
    command_line_pages,
    support_matrix_page,
    exercises_page,
    told_pages,
    measured_pages,
)


def differences(root: Path) -> Iterator[tuple[Path, str | None]]:
    """What is not as it should be: the path, and the text it should have (``None``: it should not be there).

    One maker after the other: what is written meanwhile is what the next one reads, so that two may fill one page.
    """
    for make in MADE:
        made = make(root)
        for name, text in made.files.items():
            path = root / name
            if not path.is_file() or made.gist(path.read_bytes().decode()) != made.gist(text):
                yield path, text
        for pattern in made.folders:
            for path in sorted(root.glob(pattern)):
                if path.relative_to(root).as_posix() not in made.files:
                    yield path, None


def _first_difference(there: str, made: str) -> str:
    """The first words that differ, with those around them: a difference that comes and goes can be read in a log."""
    old, new = _without_times(there), _without_times(made)
    place = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    around = slice(max(0, place - 8), place + 12)
    return f"  there  {' '.join(old[around])}\n  made   {' '.join(new[around])}"


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if anything differs")
    check = parser.parse_args(arguments).check
    differs = False
    for path, text in differences(root):
        differs = True
        name = path.relative_to(root).as_posix()
        if check:
            print(f"{name}: {'stale, nothing makes it any more' if text is None else 'not what would be made now'}")
            if text is not None and path.is_file():
                print(_first_difference(path.read_text(), text))
        elif text is None:
            path.unlink()
            print(f"removed {name}")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
            print(f"wrote {name}")
    if check and differs:
        print("run `python tools/generate.py` and look at what it changed")
    return int(check and differs)


if __name__ == "__main__":
    sys.exit(main())
