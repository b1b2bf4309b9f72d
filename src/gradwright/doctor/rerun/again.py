"""Run the script once more, where its loss became NaN or infinite, and write down where that begins."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

from gradwright.doctor.options import Options, rerun_seconds
from gradwright.doctor.rerun.launching import answer_of
from gradwright.doctor.rerun.randomness import Randomness
from gradwright.doctor.rerun.request import BEFORE, Request
from gradwright.doctor.rerun.trial.tries import Tries
from gradwright.doctor.selection import Selection
from gradwright.doctor.session.facts import LossValues, NonfiniteBegins, OwnLook, ScriptDied, WeightsNotFinite
from gradwright.doctor.session.journal import Journal, fold
from gradwright.doctor.session.model import NotExamined, Report, Subject
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.places import relative

_WHAT = "where NaN or inf begins"


def run_again(
    journal: Journal, options: Options, seconds: float, randomness: Randomness, environment: dict[str, str]
) -> Tries | None:
    """If a loss was not finite and the second run is wanted: a fact, or why there is none. ``seconds``: how long the
    first run took; ``environment``: what it started with. Cost: at most ``rerun_seconds``; what is left of them is for
    what it returns, which tries changes of the place."""
    report = fold(journal.path)
    known = _first_not_finite(report) or _weights(report) or _died_of_it(report)
    look = _own_look(report) if known is None else None
    known = known or look
    if known is None or not Selection(options, ()).hangs_on(NonfiniteBegins):
        return None
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
        request = Request(
            target=options.target,
            module=options.module,
            arguments=options.arguments,
            site=site.location if site.kind == "gradient_call" else None,
            step=step,
            seconds=bound,
            watch_from=watch_from,
            random=randomness.python,
            numpy=randomness.numpy,
            own_look=look is not None,
        )
        until = time.monotonic() + bound
        answer = _found(request, environment, until)
        if isinstance(answer, str):
            journal.add(NotExamined(_WHAT, answer))
        else:
            journal.add(_fact(answer, site, step))
            first = next((loss.history for loss in report.of(LossValues, site.id)), ())
            return Tries(request, environment, answer, first, until - time.monotonic())
    return None


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


def _own_look(report: Report) -> tuple[Subject, int, int] | None:
    """The script's own look came upon it, and kept it from going backward: the loss that would have come next."""
    look = min(report.of(OwnLook), key=lambda each: each.step, default=None)
    site = report.subject(look.site or look.subject) if look is not None else None
    return None if look is None or site is None else (site, look.step, max(0, look.step - BEFORE))


def _found(request: Request, environment: dict[str, str], until: float) -> dict[str, Any] | str:
    """The answer of a second run; of a third one that looks from the start on, if what the second one began with was
    not finite already (an embedding's row that was not read for a while). ``until``: of ``time.monotonic()``."""
    answer = _answer(request, environment)
    if request.watch_from and not isinstance(answer, str) and answer["phase"] == "given":
        left = until - time.monotonic()
        whole = _answer(replace(request, watch_from=0, seconds=left), environment) if left > 0 else answer
        return answer if isinstance(whole, str) else whole
    return answer


def _answer(request: Request, environment: dict[str, str]) -> dict[str, Any] | str:
    """What a run found, or why it did not."""
    try:
        data = answer_of("process", request.write, environment, request.seconds)
    except TimeoutError:
        return f"a second run of the script showed nothing within {request.seconds:.0f} s"
    except OSError as error:
        return f"the script can't be run again: {error}"
    if data is None:
        return "a second run of the script ended before its loss was nan or infinite: its runs are not alike"
    return data if "why_not" not in data else str(data["why_not"])


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
