"""The words of a report: numbers, verdicts, how the script ended. Every face (terminal, HTML) says them alike.

Whatever comes from the user's program passes through :func:`clean` before it is shown anywhere.
"""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from gradwright.doctor.render.of_ranks import on_ranks, wrong_on
from gradwright.doctor.session.brought import rank_in
from gradwright.doctor.session.facts import DeclaredSurrogate, FunctionCalls, GradientVerdict, RankRun
from gradwright.doctor.session.model import BY_CTRL_C, CUSTOM_FUNCTIONS, GRADIENT_CALLS, Report, Script, Subject

Tone = Literal["good", "bad", "doubt", "quiet"]

# CSI and OSC sequences as a terminal would obey them, then any other escape with its one letter.
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-Z\\-_]?|\x9b[0-?]*[ -/]*[@-~]"
)
# Controls, lone surrogates, and what turns the direction of text around or hides in it.
UNSHOWABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def clean(text: str) -> str:
    r"""One line without control characters, terminal escapes and direction marks; runs of white space become one.

    >>> clean("a\x1b[31mred\x1b[0m\nb\tc\x07")
    'ared b c'
    """
    text = re.sub(r"[\t\n\r\x0b\x0c\x85\u2028\u2029]+", " ", _ESCAPES.sub("", text))
    return re.sub(r" {2,}", " ", UNSHOWABLE.sub("", text)).strip()


def counted(number: int, noun: str, plural: str = "") -> str:
    """``1 finding``, ``2,000,000 operations``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def percent(share: float) -> str:
    """``99 %``; a share that is no number is ``? %``."""
    return f"{share * 100:.0f} %" if math.isfinite(share) else "? %"


def number(value: float) -> str:
    """Four significant digits: ``0``, ``1.25``, ``-3e-07``, ``nan``.

    >>> number(-0.0), number(1.25), number(1000000.0), number(float("nan"))
    ('0', '1.25', '1e+06', 'nan')
    """
    return "0" if value == 0 else f"{value:.4g}"


def seconds(value: float) -> str:
    """Wall time as a person says it.

    >>> [seconds(value) for value in (754.0, 25.1, 14.0, 0.0141, 0.009, 85e-6, 0.0, float("nan"))]
    ['12.6 min', '25.1 s', '14 s', '14.1 ms', '9 ms', '85 us', '0 s', '? s']
    """
    if not math.isfinite(value):
        return "? s"
    if value == 0:
        return "0 s"
    if 0 < value < 1e-7:
        return "under 0.1 us"
    for size, unit, limit in ((1e-6, "us", 1000), (1e-3, "ms", 1000), (1.0, "s", 600), (60.0, "min", 120)):
        amount = round(value / size, 0 if unit == "us" and value > 1e-6 else 1)
        if amount < limit:
            return f"{amount:.1f}".removesuffix(".0") + " " + unit
    return f"{value / 3600:.1f} h"


def size(count: int) -> str:
    """Bytes as a person says them, a kB being 1,000 of them.

    >>> [size(count) for count in (0, 999, 1_000, 480_000, 1_500_000, 12_000_000_000)]
    ['0 B', '999 B', '1 kB', '480 kB', '1.5 MB', '12 GB']
    """
    for step, unit in ((1, "B"), (10**3, "kB"), (10**6, "MB")):
        if round(count / step, 1) < 1000:
            return f"{count / step:.1f}".removesuffix(".0") + " " + unit
    return f"{count / 10**9:.1f}".removesuffix(".0") + " GB"


def listed(items: Iterable[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    names = list(items)
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


# --- how it ended ----------------------------------------------------------------------------------------------------


def headline(report: Report) -> str:
    """The first line: what was found to look at, how much was watched, how the script fared."""
    script = report.script
    functions = sum(subject.kind == "function" for subject in report.subjects)
    callables = sum(subject.kind == "callable" for subject in report.subjects)
    parts = [counted(functions, "custom Function")] if functions else []
    parts += [counted(callables, "callable")] if callables else []
    parts = parts or ["custom Functions not watched" if CUSTOM_FUNCTIONS in report.unwatched else "no custom Functions"]
    if not script.argv:
        return " · ".join(parts)
    if script.steps:
        parts.append(f"{counted(script.steps, 'step')} watched")
    elif script.gradients:
        parts.append(f"{counted(script.gradients, 'gradient call')} watched, no optimizer step")
    else:
        unwatched = GRADIENT_CALLS in report.unwatched
        parts.append("gradient calls not watched" if unwatched else "no gradient was asked for")
    runs = list(report.of(RankRun))
    if runs:
        parts.append(counted(len(runs), "rank") if len(runs) == runs[0].world_size else _ranks_here(runs))
    elif script.rank is not None:
        parts.append(f"rank {script.rank}")
    ran = f"ran {seconds(script.seconds)} and " if script.seconds > 0 else ""
    parts.append(f"the script {ran}{ending(script)}")
    return " · ".join(parts)


def _ranks_here(runs: list[RankRun]) -> str:
    return f"{len(runs)} of {runs[0].world_size:,} ranks"


def ending(script: Script) -> str:
    """``exited 0``, ``died of RuntimeError at train.py:31``, ``was ended by SIGKILL``, ``was stopped ...``.

    >>> ending(Script(exit_code=-9)), ending(Script(exit_code=2))
    ('was ended by SIGKILL', 'exited 2')
    """
    if script.stopped_early == BY_CTRL_C:
        after = f" after {counted(script.steps, 'step')}" if script.steps else ""
        return f"was interrupted by Ctrl-C{after}"
    if script.stopped_early is not None:
        reason = clean(script.stopped_early) or "enough was seen"
        if re.search(r"\bafter\b", reason) is None:
            reason = (f"after {counted(script.steps, 'step')}: " if script.steps else "early: ") + reason
        elif "enough was seen" not in reason:
            reason += ": enough was seen"
        return f"was stopped {reason} (--to-end lets it finish)"
    death = script.exception
    if death is not None:
        where = f" at {clean(str(death.location))}" if death.location else ""
        if death.type == "KeyboardInterrupt":
            return f"was interrupted{where}"
        return f"died of {clean(death.type)}{where}"
    if script.exit_code is None:
        return "ended, how is not known"
    if script.exit_code < 0:
        return f"was ended by {signal_name(-script.exit_code)}"
    return f"exited {script.exit_code}"


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # Windows knows few of them, and a session may come from another machine
        return "SIGKILL" if number == 9 else f"signal {number}"


# --- is the gradient right? ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cell:
    """What the table says of one Function's gradient; ``word`` is the verdict, ``rest`` what qualifies it."""

    tone: Tone
    word: str
    rest: str = ""

    def __str__(self) -> str:
        return self.word + self.rest


_FACTORS = ("constant factor", "sum for mean")
_PARTS = {1 / 4: "a quarter of", 1 / 3: "a third of", 1 / 2: "half of", 2.0: "twice", 3.0: "3 times", 4.0: "4 times"}


def cause(verdict: GradientVerdict) -> str:
    """How the returned gradient differs from what it is.

    >>> cause(GradientVerdict(id="v", subject="f", specimen="s", input_index=0, input_name="w", verdict="wrong",
    ...                       cause="constant factor", factor=0.5))
    'half of what it is'
    """
    factor = verdict.factor
    if verdict.cause in _FACTORS and factor is not None and math.isfinite(factor) and factor != 0:
        if math.isclose(factor, -1, rel_tol=1e-3):
            return "has the wrong sign"
        part = next((word for exact, word in _PARTS.items() if math.isclose(abs(factor), exact, rel_tol=1e-3)), "")
        return f"{part or number(abs(factor)) + ' times'} what it is" + (", and the wrong sign" if factor < 0 else "")
    if verdict.cause == "sign":
        return "has the wrong sign"
    if verdict.cause == "dropped term" and factor == 0:
        if verdict.expected is None:
            return "zero where it is not"
        return f"zero where it is {number(verdict.expected)}"
    if verdict.cause == "transpose":
        return "transposed"
    if verdict.cause == "state kept between calls":
        return "changed by another call" if verdict.reason.startswith("right for one call") else verdict.reason
    if verdict.cause == "missing grad_output":
        return "ignores the cotangent"
    if verdict.cause != "formula" and verdict.reason:
        return f"{verdict.cause}: {clean(verdict.reason)}"
    if verdict.returned is not None and verdict.expected is not None:
        at = f"at {list(verdict.at)}: " if verdict.at else ""
        return f"{at}returned {number(verdict.returned)}, is {number(verdict.expected)}"
    return f"off by {percent(verdict.error)} of its largest entry"


NO_CALL = "no call was seen"
_SURROGATES = {
    "identity": "the forward changes nothing",
    "piecewise constant": "the forward is piecewise constant",
    "gradient held back": "detach() or no_grad() holds it back",
}


def gradient_cell(report: Report, subject: Subject) -> Cell:
    """The verdict on one Function, over all its inputs and specimens. Never "right" beyond what was tried."""
    verdicts = list(report.of(GradientVerdict, subject.id))
    declared = next(report.of(DeclaredSurrogate, subject.id), None)
    if declared is not None:
        return Cell("doubt", "surrogate", f" (declared: {clean(declared.reason)})")
    if not verdicts:
        reason = unexamined_reason(report, subject)
        return Cell("quiet", "not examined", f": {reason}" if reason else "")
    wrong = [verdict for verdict in verdicts if verdict.verdict == "wrong"]
    if wrong:
        return Cell("bad", "WRONG", f" in {_wrong(verdicts, wrong, wrong_on(report, subject.id))}")
    surrogates = [verdict for verdict in verdicts if verdict.verdict == "surrogate"]
    if surrogates:
        kind = _SURROGATES.get(surrogates[0].cause, "")
        return Cell("doubt", "surrogate?", f"  ({kind})" if kind else "")
    right = [verdict for verdict in verdicts if verdict.verdict == "right"]
    unknown = [verdict for verdict in verdicts if verdict.verdict == "unknown"]
    doubt = f": {clean(unknown[0].reason) or 'the oracles do not agree'}" if unknown else ""
    if not right:
        return Cell("doubt", "unknown", doubt)
    tried = f"({counted(sum(verdict.checks for verdict in right), 'check')}, {counted(_specimens(right), 'input')})"
    if not unknown:
        return Cell("good", "right", f"  {tried}")
    sure = _names(right) - _names(unknown)
    if sure:
        return Cell("doubt", "right", f" in {listed(sorted(sure))} {tried}, unknown in {_first(unknown)}{doubt}")
    return Cell("doubt", "right", f" {tried}, but unknown on {counted(_specimens(unknown), 'other input')}{doubt}")


def unexamined_reason(report: Report, subject: Subject) -> str:
    """Why a Function has no verdict, "" if nobody said."""
    names = {subject.id, subject.name, f"gradient of {subject.name}", f"the gradient of {subject.name}"}
    for item in report.not_examined:
        if item.what in names:
            return clean(item.why)
    calls = next(report.of(FunctionCalls, subject.id), None)
    if uncalled(report, subject):
        return NO_CALL
    if calls is not None and calls.backward_calls == 0:
        return "its backward was never called"
    return ""


def uncalled(report: Report, subject: Subject) -> bool:
    """Whether a Function of the script was seen in the text, but not one call of it, nor was it tried alone."""
    if subject.kind != "function" or any(True for _ in report.of(GradientVerdict, subject.id)):
        return False
    return all(fact.forward_calls == fact.backward_calls == 0 for fact in report.of(FunctionCalls, subject.id))


def _wrong(verdicts: list[GradientVerdict], wrong: list[GradientVerdict], ranks: list[int]) -> str:
    """``ranks``: those it is wrong on, where others part from them; of one rank, inputs are counted."""
    by_phrase: dict[str, list[str]] = {}
    for name in dict.fromkeys(_name(verdict) for verdict in wrong):
        own = [verdict for verdict in wrong if _name(verdict) == name]
        worst = max(own, key=lambda verdict: math.inf if math.isnan(verdict.error) else verdict.error)
        looked = {rank_in(verdict.id) for verdict in own}
        tried = _specimens([one for one in verdicts if _name(one) == name and rank_in(one.id) in looked])
        some = f" (on {_specimens(own)} of {counted(tried, 'input')})" if _specimens(own) < tried else ""
        some = f" ({on_ranks(ranks)})" if ranks else some
        by_phrase.setdefault(cause(worst) + some, []).append(name)
    return "; ".join(f"{'in ' if at else ''}{listed(who)}: {what}" for at, (what, who) in enumerate(by_phrase.items()))


def _name(verdict: GradientVerdict) -> str:
    return clean(verdict.input_name) or f"input {verdict.input_index}"


def _names(verdicts: list[GradientVerdict]) -> set[str]:
    return {_name(verdict) for verdict in verdicts}


def _first(verdicts: list[GradientVerdict]) -> str:
    return listed(dict.fromkeys(_name(verdict) for verdict in verdicts))


def _specimens(verdicts: list[GradientVerdict]) -> int:
    return len({verdict.specimen for verdict in verdicts})
