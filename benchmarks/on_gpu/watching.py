"""How much longer a training step takes while the doctor watches: a table of ``how_much_does_watching_cost.py``.

Two processes of the same script run at once, plain (``python script.py``) and watched (the patient), each waiting to be
asked for steps, so that their starts overlap and they take turns afterwards. The script tells the seconds of a step.
The first steps, which the patient looks at more closely, are a column of their own (their mean).
When this process ends, both read the end of their input, and end too.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from how_much_does_watching_cost import AIM

from gradwright.doctor.conduct import start_command
from gradwright.doctor.options import Options
from on_gpu.comparing import describe_error
from on_gpu.figure import Figure, Machine, OursFailed

SCRIPT = Path(__file__).parents[1] / "subjects" / "training_step.py"
WARM_UP_STEPS = 100  # the patient looks at the first ones more closely
STEPS = 20  # of one turn
PATIENCE_SECONDS = 60.0  # for one row
MODELS = ("transformer", "MLP")
TITLE = "One step of training, ms"


class Script:
    """A running script that trains as often as it is asked to."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._said = folder / "stderr"
        with self._said.open("w") as said:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True
            )

    def train(self, steps: int) -> tuple[float, str]:
        """Seconds of one of so many steps, and the last loss, to the last bit. Raises RuntimeError, where the script
        ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it ended: what follows says so
            self.process.stdin.write(f"{steps}\n")
            self.process.stdin.flush()
        words = self.process.stdout.readline().split()
        if len(words) != 2:
            lines = self._said.read_text(errors="replace").strip().splitlines()
            said = lines[-1] if lines else "it said nothing"
            raise RuntimeError(f"the script ended, or was stopped after {PATIENCE_SECONDS:g} s: {said}")
        return float(words[0]), words[1]


@contextlib.contextmanager
def started(arguments: tuple[str, ...]) -> Iterator[dict[str, Script]]:
    """The script plain and watched; both are killed at the end, and where they take too long."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as ends:
        scripts: dict[str, Script] = {}

        def kill() -> None:
            for script in scripts.values():
                script.process.kill()

        ends.callback(_close, scripts)
        ends.callback(kill)
        # The examination comes after the script's end, which is not waited for; it is short, should nobody kill it.
        options = Options(
            target=str(SCRIPT), arguments=arguments, to_end=True, probe_seconds=1.0, fix_seconds=0.0, rerun="never"
        )
        commands = {
            "plain": [sys.executable, str(SCRIPT), *arguments],
            "watched": start_command(Path(folder) / "journal", options),
        }
        for name, command in commands.items():
            (Path(folder) / name).mkdir()
            scripts[name] = Script(command, Path(folder) / name)
        timer = threading.Timer(PATIENCE_SECONDS, kill)
        timer.start()
        ends.callback(timer.cancel)
        yield scripts


def _close(scripts: dict[str, Script]) -> None:
    """After they were killed. Their output isn't read to its end: a child of theirs might hold it open."""
    for script in scripts.values():
        for stream in (script.process.stdin, script.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                if stream is not None:
                    stream.close()
        script.process.wait()


def measure(model: str, machine: Machine) -> dict[str, Any]:
    arguments = ("--model", model, "--device", str(machine.device), *(["--small"] if machine.is_small else []))
    warm_up, steps = (3, 3) if machine.is_small else (WARM_UP_STEPS, STEPS)
    first: dict[str, list[float]] = {"plain": [], "watched": []}
    times: dict[str, list[float]] = {"plain": [], "watched": []}
    losses: dict[str, list[str]] = {"plain": [], "watched": []}
    notes = ""
    try:
        with started(arguments) as scripts:
            for turn in range(machine.rounds + 1):
                for name, script in scripts.items():
                    took, loss = script.train(steps if turn else warm_up)
                    losses[name].append(loss)
                    (times if turn else first)[name].append(took)
    except RuntimeError as error:
        notes = describe_error(error)
    cells: dict[str, Any] = {
        f"{name}_ms": round(1e3 * statistics.median(taken), 3) if taken else "-" for name, taken in times.items()
    }
    cells["watched_at_first_ms"] = round(1e3 * first["watched"][0], 3) if first["watched"] else "-"
    ratios = [watched / plain for plain, watched in zip(times["plain"], times["watched"], strict=False)]
    cells |= {
        "ratio": round(statistics.median(ratios), 3) if ratios else "-",
        "aim": AIM,
        "same_results": describe_difference(losses["plain"], losses["watched"]),
        "rounds": len(ratios),
        "steps_a_round": steps,
        "notes": notes,
    }
    if not ratios or notes:
        raise OursFailed(notes or "no round was measured", cells)
    return cells


def describe_difference(plain: list[str], watched: list[str]) -> bool | str:
    """True where all losses are equal to the last bit, else how far they are apart: kernels of a GPU may add up in
    another order each time. "not known" where one of the scripts ended before the other."""
    if not plain or len(plain) != len(watched):
        return "not known"
    if plain == watched:
        return True
    pairs = [(float.fromhex(a), float.fromhex(b)) for a, b in zip(plain, watched, strict=True)]
    return f"apart by {max(abs(a - b) / max(abs(a), 1e-30) for a, b in pairs):.1e}"


def list_figures(*, is_small: bool) -> list[Figure]:
    rows = {"transformer": "a transformer of 4 layers", "MLP": "an MLP of 3 layers"}
    return [
        Figure("how_much_does_watching_cost", TITLE, rows[model], partial(measure, model))
        for model in (MODELS[1:] if is_small else MODELS)
    ]
