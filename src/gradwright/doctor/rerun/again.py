"""Run the script once more, where its loss became NaN or infinite, and write down where that begins."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from gradwright.doctor.options import Options, rerun_seconds
from gradwright.doctor.rerun.randomness import Randomness
from gradwright.doctor.rerun.request import ANSWER, BEFORE, Request
from gradwright.doctor.session.facts import LossValues, NonfiniteBegins, ScriptDied, WeightsNotFinite
from gradwright.doctor.session.journal import Journal, fold
from gradwright.doctor.session.model import NotExamined, Report, Subject
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.places import home, relative

CODE = "GW511"
_WHAT = "where NaN or inf begins"
_START = "import sys; sys.path.pop(0); from gradwright.doctor.rerun.process import main; main(sys.argv[1])"


def run_again(
    journal: Journal, options: Options, seconds: float, randomness: Randomness, environment: dict[str, str]
) -> None:
    """If a loss was not finite and the second run is wanted: a fact, or why there is none. ``seconds``: how long the
    first run took; ``environment``: what it started with. Cost: at most ``rerun_seconds``."""
    report = fold(journal.path)
    known = _first_not_finite(report) or _weights(report) or _died_of_it(report)
    if known is None or not _selected(options):
        return
    site, step, watch_from = known
    bound = rerun_seconds(options, seconds)
    if options.rerun == "never":
        journal.add(NotExamined(_WHAT, "a second run of the script was not wanted (--no-rerun)"))
    elif not bound:
        why = f"the script ran {seconds:.0f} s: with --rerun it is run once more, instrumented, to find the place"
        journal.add(NotExamined(_WHAT, why))
    elif int(environment.get("WORLD_SIZE", "1") or 1) > 1:
        journal.add(NotExamined(_WHAT, "one rank of several can't be run again by itself"))
    else:
        journal.progress("running", f"the script once more, to find {_WHAT}")
        answer = _found(options, site, step, bound, randomness, environment, watch_from)
        if isinstance(answer, str):
            journal.add(NotExamined(_WHAT, answer))
        else:
            journal.add(_fact(answer, site, step))


def _first_not_finite(report: Report) -> tuple[Subject, int, int] | None:
    """The call of ``backward`` whose loss was not finite, which loss of it was the first, and from which one on to
    look."""
    found = [
        (site, loss.first_nonfinite_step, max(0, loss.first_nonfinite_step - BEFORE))
        for loss in report.of(LossValues)
        if loss.first_nonfinite_step is not None and (site := report.subject(loss.subject)) is not None
    ]
    return min(found, key=lambda each: each[1], default=None)


def _weights(report: Report) -> tuple[Subject, int, int] | None:
    """Parameters that were not finite, though no loss showed it: the loss before they were seen."""
    found = [
        (site, max(0, weights.losses - 1), max(0, weights.finite_at - BEFORE))
        for weights in report.of(WeightsNotFinite)
        if (site := report.subject(weights.site)) is not None
    ]
    return min(found, key=lambda each: each[1], default=None)


def _died_of_it(report: Report) -> tuple[Subject, int, int] | None:
    """The script looked for itself, or torch did, and ended with an exception that speaks of it: the loss that would
    have come next."""
    if not any(death.is_of_nan for death in report.of(ScriptDied)):
        return None
    found = [
        (site, loss.calls, max(0, loss.calls - BEFORE))
        for loss in report.of(LossValues)
        if (site := report.subject(loss.subject)) is not None
    ]
    return max(found, key=lambda each: each[1], default=None)


def _selected(options: Options) -> bool:
    chosen = not options.select or CODE.startswith(options.select)
    return chosen and not (options.ignore and CODE.startswith(options.ignore))


def _found(
    options: Options,
    site: Subject,
    step: int,
    seconds: float,
    randomness: Randomness,
    environment: dict[str, str],
    watch_from: int,
) -> dict[str, Any] | str:
    """The answer of a second run; of a third one that looks from the start on, if what the second one began with was
    not finite already (an embedding's row that was not read for a while)."""
    until = time.monotonic() + seconds
    answer = _answer(options, site, step, seconds, randomness, environment, watch_from)
    if watch_from and not isinstance(answer, str) and answer["phase"] == "given":
        left = until - time.monotonic()
        whole = _answer(options, site, step, left, randomness, environment, 0) if left > 0 else answer
        return answer if isinstance(whole, str) else whole
    return answer


def _answer(
    options: Options,
    site: Subject,
    step: int,
    seconds: float,
    randomness: Randomness,
    environment: dict[str, str],
    watch_from: int,
) -> dict[str, Any] | str:
    """What a run found, or why it did not."""
    folder = Path(tempfile.mkdtemp(prefix="gradwright-"))
    request = Request(
        target=options.target,
        module=options.module,
        arguments=options.arguments,
        site=site.location,
        step=step,
        seconds=seconds,
        parent=os.getpid(),
        watch_from=watch_from,
        random=randomness.python,
        numpy=randomness.numpy,
    )
    try:
        request.write(folder)
        nowhere = subprocess.DEVNULL
        process = subprocess.Popen(
            [sys.executable, "-c", _START, str(folder)],
            cwd=home(), env=environment, stdin=nowhere, stdout=nowhere, stderr=nowhere,
        )  # fmt: skip
        try:
            process.wait(seconds + 5)
        except subprocess.TimeoutExpired:
            return f"a second run of the script showed nothing within {seconds:.0f} s"
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        answer = folder / ANSWER
        if not answer.is_file():
            return "a second run of the script ended before its loss was nan or infinite: its runs are not alike"
        data = json.loads(answer.read_text())
        return data if "why_not" not in data else str(data["why_not"])
    except OSError as error:
        return f"the script can't be run again: {error}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fact(answer: dict[str, Any], site: Subject, step: int) -> NonfiniteBegins:
    at = answer["place"]
    known = at["line"] and not at["path"].startswith("<")
    place = Location(relative(at["path"]), at["line"], at["column"], at["end_line"], at["end_column"])
    return NonfiniteBegins(
        id=f"nonfinite {site.id}",
        subject=site.id,
        location=place if known else None,
        function=at["function"],
        text=at["text"],
        operation=answer["operation"],
        phase=answer["phase"],
        cause=answer["kind"],
        value=answer["value"],
        entry=tuple(answer["entry"]),
        shape=tuple(answer["shape"]),
        why=answer["why"],
        operands=tuple((name, math.nan if value is None else float(value)) for name, value in answer["operands"]),
        upstream=None if answer["upstream"] is None else float(answer["upstream"]),
        hints=tuple(answer["hints"]),
        then=tuple(answer["then"]),
        step=max(0, answer["step"]),
        loss_step=step,
    )
