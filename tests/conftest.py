"""Fixtures: run a script under the doctor, quickly (in a fork of a process that has torch) or as a user would."""

import contextlib
import gc
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import hypothesis
import pytest
from tests.chance import seed_all
from tests.large_pages import gather_in_large_pages
from tests.reports import Made, kept_or_made
from tests.warm import COMMAND, Zygote

from gradwright.doctor.ends import note_death
from gradwright.doctor.examination import RULE_FAILED, judge_journal
from gradwright.doctor.options import Options
from gradwright.doctor.render import render
from gradwright.doctor.session.journal import Journal, fold
from gradwright.doctor.session.model import Finding, Report

# Not the user's: what is kept there is shared by the workers of a run, and by the next one.
os.environ.setdefault("GRADWRIGHT_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "kernels"))

# The same draws in each run, so that nobody's change fails by chance. `--hypothesis-profile default` draws others.
hypothesis.settings.register_profile("same draws", derandomize=True)
hypothesis.settings.load_profile("same draws")

DURATIONS = Path(__file__).with_name("durations.json")  # of a whole run: `make durations`

# Fixtures that take long: what asks for one of them runs in one worker, others would make it again.
MADE_ONCE = ("executed", "refusals", "site", "wheel")


@pytest.hookimpl(tryfirst=True)  # before xdist looks for the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first, so that no worker is left with it when the others are done."""
    longest = json.loads(DURATIONS.read_text())["slow tests"] if DURATIONS.is_file() else {}
    items.sort(key=lambda item: -longest.get(item.nodeid, 0.0))
    for item in items:
        for name in MADE_ONCE:
            if name in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.xdist_group(name))


def pytest_collection_finish() -> None:
    """Fifteen thousand collected tests are no garbage: let no collection walk through them again.

    Of each seed for devices that are not there torch keeps the stack, for when they come: a millisecond a call.
    """
    gc.collect()
    gc.freeze()
    gather_in_large_pages()
    for name in ("torch.cuda", "torch.xpu", "torch.mtia"):
        device = sys.modules.get(name)
        if device is not None and not device.is_available():
            vars(device)["manual_seed_all"] = lambda seed: None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    seed_all()  # whatever ran before


@dataclass(frozen=True)
class Ran:
    """A report, and what the script itself printed."""

    report: Report
    stdout: str
    stderr: str

    @property
    def codes(self) -> list[str]:
        return sorted(finding.code for finding in self.report.findings)

    @property
    def faults(self) -> list[Finding]:
        return [finding for finding in self.report.findings if finding.severity != "info"]


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    with tempfile.TemporaryDirectory(prefix="gw-") as folder, contextlib.closing(Zygote(Path(folder))) as started:
        yield started


@pytest.fixture
def warm_python(zygote: Zygote) -> Path:
    """An interpreter that starts the doctor's processes as forks of the zygote, and anything else as Python does."""
    return zygote.python()


@pytest.fixture
def run(zygote: Zygote, tmp_path: Path, record_property: Callable) -> Callable[..., Ran]:
    """Run a script as the patient does, in a fork of the zygote: ``run(path, *arguments, cwd=..., **options)``.

    ``on_gpu``: where there is no GPU, every tensor is taken for one that lies on it. What was said of the same script
    before is read again (see ``reports``), unless ``anew``: where the run itself is looked at, or what it leaves.
    """

    def run_script(
        target: Path | str,
        *arguments: str,
        cwd: Path | None = None,
        stdin: str = "",
        seconds: float = 600,
        on_gpu: bool = False,
        anew: bool = False,
        **options,
    ) -> Ran:
        files = {name: tmp_path / f"ran.{name}" for name in ("stdout", "stderr", "stdin", "journal")}
        options_asked = Options(target=str(target), arguments=arguments, **options)
        home = Path(target).parent if Path(target).exists() else tmp_path
        asked = {
            "options": options_asked.to_json(),
            "cwd": str(cwd or home),
            "seconds": seconds,
            "on_gpu": on_gpu,
        }

        def make() -> Made:
            record_property("doctor run", str(target))
            files["journal"].unlink(missing_ok=True)
            files["stdin"].write_text(stdin)
            status = zygote.be_patient(asked | {name: str(path) for name, path in files.items()})
            if status < 0:  # as conduct does it for a patient that died
                note_death(files["journal"], status)
                with Journal(files["journal"]) as journal:
                    judge_journal(journal, options_asked)
            return Made(**{name: files[name].read_text() for name in ("journal", "stdout", "stderr")})

        made = make() if anew else kept_or_made(cwd or home, asked | {"stdin": stdin}, make)
        files["journal"].write_text(made.journal)
        report = fold(files["journal"])
        assert not [one for one in report.not_examined if one.why.startswith(RULE_FAILED)]
        return Ran(report, made.stdout, made.stderr)

    return run_script


@dataclass(frozen=True)
class Called:
    """A whole call of the command line."""

    code: int
    stdout: str
    stderr: str
    session: Report | None


@pytest.fixture
def gradwright(zygote: Zygote, record_property: Callable) -> Callable[..., Called]:
    """The command as a user runs it: ``gradwright("diagnose", "train.py", cwd=folder)``.

    The patient is a fork of the zygote, three seconds cheaper; ``cold``: it is a process from its own beginning, where
    that is what matters.
    """

    def call(
        *words: str,
        cwd: Path,
        stdin: str = "",
        env: dict[str, str] | None = None,
        seconds: float = 600,
        cold: bool = False,
    ) -> Called:
        from gradwright.doctor.session.codec import from_json

        if words[0] == "diagnose":
            record_property("doctor run", shlex.join(words))
        start = ["-m", "gradwright"] if cold else ["-c", COMMAND.format(str(zygote.python()))]
        done = subprocess.run(
            [sys.executable, *start, *words],
            cwd=cwd,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=seconds,
            env={**os.environ, **(env or {})},
        )
        session = cwd / ".gradwright" / "last.json"
        report = from_json(session.read_text()) if session.is_file() else None
        return Called(done.returncode, done.stdout, done.stderr, report)

    return call


def masked(text: str) -> str:
    """A terminal report without what differs between machines and runs: times, paths, versions, measured ratios."""
    text = re.sub(r"\d[\d,.]*(?:e-?\d+)? ?(?:s|ms|us|ns)\b", "<time>", text)
    text = re.sub(r"\b\d+(?:\.\d+)? %", "<share> %", text)
    text = re.sub(r"\b[\d,]+ page faults", "<count> page faults", text)
    text = re.sub(r"\d[\d,.]* [kMG]?B\b", "<bytes>", text)
    text = re.sub(r"\d[\d,.]* times\b", "<ratio> times", text)
    text = re.sub(r"\d+ of \d+ faulty twins?", "<n> of <n> faulty twins", text)
    text = re.sub(r"verified on \d+ inputs?", "verified on <n> inputs", text)
    text = re.sub(r"exact at \d+ shapes?", "exact at <n> shapes", text)
    text = re.sub(r"/[^\s:]*/site-packages", "<site-packages>", text)
    text = re.sub(r"\d\.?\d*e-\d+", "<tiny>", text)
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)


def _flowing(text: str) -> list[str]:
    """The words: where a line breaks and how wide a column is hangs on how long a time was."""
    return masked(" ".join(text.split())).split()


@pytest.fixture
def shown() -> Callable[[Report], str]:
    """The terminal's report, without what there was no time for: that hangs on what else the machine does."""

    def shown(report: Report) -> str:
        late = [one for one in report.not_examined if "time limit" in one.why or "used up" in one.why]
        kept = tuple(one for one in report.not_examined if one not in late)
        return render(replace(report, not_examined=kept), "terminal", width=100, color=False)

    return shown


@pytest.fixture
def golden() -> Callable[[str, Path], None]:
    """Compare with the text kept beside a case; ``make goldens`` rewrites what has changed on purpose."""

    def compare(text: str, path: Path) -> None:
        same = path.is_file() and _flowing(text) == _flowing(path.read_text())
        if os.environ.get("GRADWRIGHT_GOLDENS") == "rewrite" and not same:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(masked(text))
        assert path.is_file(), f"no golden {path}; `make goldens` writes it"
        assert _flowing(text) == _flowing(path.read_text()), (
            f"{path} has drifted; `make goldens` rewrites it if the change is meant"
        )

    return compare
