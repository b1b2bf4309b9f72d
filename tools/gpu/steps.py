"""The steps of `make gpu`, in their order; each yields results the moment they are known."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from gpu.children import run_in_children
from gpu.results import Outcome, Result
from gpu.setting import ROOT, Setting
from gpu.site_packages import install_wheels


@dataclass(frozen=True)
class Step:
    """One part of the run, and the seconds it may take at most."""

    name: str
    seconds: float
    run: Callable[[Setting, float], Iterator[Result]]


@dataclass(frozen=True)
class Script:
    """A script for the doctor, and the code that it has to find there."""

    name: str
    code: str

    @property
    def path(self) -> Path:
        return ROOT / "tools" / "gpu" / "scripts" / f"{self.name}.py"


SCRIPTS = (Script("wrong_gradient", "GW101"), Script("element_loop", "GW301"), Script("nan_in_backward", "GW511"))


def describe_machine(setting: Setting, seconds: float) -> Iterator[Result]:
    """What travelled is installed; what the machine is.  The first import of torch is in here, from a cold disk."""
    yield install_wheels(setting.site)
    started = time.monotonic()
    words: list[str | Path] = [sys.executable, ROOT / "tools" / "gpu" / "machine.py", "--device", setting.device]
    code, printed = _run_until(setting, words, min(started + seconds, setting.until))
    took = time.monotonic() - started
    if code == 0:
        yield Result("machine", "machine", "passed", took, data=json.loads(printed.splitlines()[-1]))
    else:
        yield Result("machine", "machine", "failed", took, _describe_end(code), printed)


def run_doctor(setting: Setting, seconds: float) -> Iterator[Result]:
    """``gradwright diagnose`` on each script; it has to find what is wrong there.  Sessions are kept as they are."""
    deadline = min(time.monotonic() + seconds, setting.until)
    with ThreadPoolExecutor(2 if setting.is_dry else len(SCRIPTS)) as pool:
        yield from pool.map(lambda script: _diagnose(setting, script, deadline), SCRIPTS)


def _diagnose(setting: Setting, script: Script, deadline: float) -> Result:
    started = time.monotonic()
    session = setting.results.folder / f"doctor.{script.name}.json"
    words: list[str | Path] = [sys.executable, "-m", "gradwright", "diagnose", "--session", session, script.path]
    code, printed = _run_until(setting, [*words, "--device", setting.device], deadline)
    took = time.monotonic() - started
    if code is None or not session.exists():
        return Result("doctor", script.name, "failed", took, _describe_end(code), printed)
    report = json.loads(session.read_text("utf-8"))
    found = sorted({finding["code"] for finding in report["findings"]})
    data = {
        "exit_code": code,
        "codes": found,
        "fixes": sum(finding["fix"] is not None for finding in report["findings"]),
        "not_examined": report["not_examined"],
    }
    if script.code in found and code == 1:
        return Result("doctor", script.name, "passed", took, data=data)
    why = f"found {', '.join(found) or 'nothing'} and exited {code}: {script.code} and 1 were expected"
    return Result("doctor", script.name, "failed", took, why, printed, data)


def run_tests(setting: Setting, seconds: float) -> Iterator[Result]:
    """The tests marked gpu, the most telling files first, in several processes: none of them reads a clock."""
    from tests.on_gpu.order import GPU_FILES

    limits = setting.limits(seconds, start=60, each=45)
    count = 2 if setting.is_dry else 4
    environment = _make_test_environment(setting)

    def run_share(files: Sequence[str]) -> Iterator[Result]:
        folder = setting.make_folder()

        def command(names: Sequence[str] | None, events: Path) -> list[str]:
            environment_of_events = [f"GRADWRIGHT_EVENTS={events}", f"GRADWRIGHT_ONLY={_write_names(names, events)}"]
            return ["env", *environment_of_events, *_write_pytest_command(files, "-p", "gpu.pytest_events")]

        return run_in_children("tests", command, None, limits, folder, setting.log, environment)

    yield from _merge([run_share(share) for share in deal(GPU_FILES, count)])


def _write_pytest_command(files: Sequence[str], *options: str) -> list[str]:
    """The tests of these files that are marked gpu.  Nothing is written into the repository."""
    words = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-W", "default", "-p", "no:cacheprovider", *options]
    return [*words, "--continue-on-collection-errors", "-c", str(ROOT / "pyproject.toml"), *files]


def _make_test_environment(setting: Setting) -> dict[str, str]:
    """pytest loads no plugins that the machine happens to have; a dry run has Triton's interpreter run its kernels."""
    plugins = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return setting.environment(**plugins, **({"TRITON_INTERPRET": "1"} if setting.is_dry else {}))


def run_figures(setting: Setting, seconds: float) -> Iterator[Result]:
    """The figures, one after the other in one process, as long as none takes it along."""
    limits = setting.limits(seconds, start=60, each=60)

    def command(names: Sequence[str] | None, events: Path) -> list[str | Path]:
        words: list[str | Path] = [sys.executable, ROOT / "benchmarks" / "run_on_gpu.py"]
        words += ["--device", setting.device, "--into", events]
        words += [] if names is None else ["--only-file", _write_names(names, events)]
        return [*words, "--small"] if setting.is_dry else words

    folder, environment = setting.make_folder(), setting.environment()
    yield from run_in_children("figures", command, None, limits, folder, setting.log, environment)


def list_everything(setting: Setting, seconds: float) -> Iterator[Result]:
    """Nothing is run: all that would be imported is, and each list that would be gone through is made."""
    from tests.on_gpu.order import GPU_FILES

    yield install_wheels(setting.site)
    imports = "import gradwright.doctor.examination, gradwright.doctor.observe.watch"
    lists = (
        ("tests", _write_pytest_command(GPU_FILES, "--collect-only"), _make_test_environment(setting)),
        ("figures", [sys.executable, str(ROOT / "benchmarks" / "run_on_gpu.py"), "--list"], setting.environment()),
        ("doctor", [sys.executable, "-c", imports], setting.environment()),
    )
    for name, words, environment in lists:
        started = time.monotonic()
        done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)
        took = time.monotonic() - started
        outcome: Outcome = "failed" if done.returncode else "passed"
        last = (done.stdout.strip().splitlines() or [""])[-1]
        why = _describe_end(done.returncode) if done.returncode else last
        yield Result(name, f"list of {name}", outcome, took, why, done.stdout + done.stderr)


STEPS = (
    Step("machine", 45, describe_machine),
    Step("doctor", 60, run_doctor),
    Step("tests", 180, run_tests),
    Step("figures", 180, run_figures),
)
#: What is run in their place where nothing is to be run.
LISTS = (Step("lists", 300, list_everything),)


def deal(files: Sequence[str], count: int) -> list[Sequence[str]]:
    """In turn, so that the first ones are begun first; no share is empty.

    >>> deal("abcde", 2)
    ['ace', 'bd']
    """
    return [files[start::count] for start in range(min(count, len(files)))]


def _merge(works: Sequence[Iterator[Result]]) -> Iterator[Result]:
    """Go through all of them at once; their results as they come.  Raises what one of them raises."""
    results: queue.Queue[Result | None] = queue.Queue()

    def run(work: Iterator[Result]) -> None:
        try:
            for result in work:
                results.put(result)
        finally:
            results.put(None)

    with ThreadPoolExecutor(len(works)) as pool:
        futures = [pool.submit(run, work) for work in works]
        for _ in works:
            while (result := results.get()) is not None:
                yield result
        for future in futures:
            future.result()


def _write_names(names: Sequence[str] | None, events: Path) -> str:
    """A file beside the events with these names, a line each; "" where all are meant."""
    if names is None:
        return ""
    path = events.with_suffix(".names")
    path.write_text("".join(f"{name}\n" for name in names), "utf-8")
    return str(path)


def _run_until(setting: Setting, words: Sequence[str | Path], deadline: float) -> tuple[int | None, str]:
    """Exit code (None: ended at the deadline) and all that was printed, which the log has, too."""
    printed = setting.make_folder() / "printed"
    with printed.open("wb") as stream:
        process = subprocess.Popen(
            [str(word) for word in words],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=setting.environment(),
            cwd=setting.work,
        )
        try:
            code: int | None = process.wait(max(1.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            code = None
            os.killpg(process.pid, 9)
            process.wait()
    text = printed.read_bytes()
    setting.log(text)
    return code, text.decode("utf-8", "replace")


def _describe_end(code: int | None) -> str:
    return "not over in time" if code is None else f"exit code {code}"
