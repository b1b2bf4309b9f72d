"""After the tests: the Functions that they called are tried, judged and mended, as the doctor does it after a script.

Only Functions are subjects here, so the findings are those that rules make of Functions: of the categories gradient,
contract, speed, memory and numerics. Rules on training (GW6) and on how a script ended (GW9) judge optimizers, gradient
calls and scripts; tests call ``backward`` without ``zero_grad`` and raise what they expect, and that is no fault. What
weighs a whole Function against plain autograd (GW303) is left out unless it is selected: tests' inputs are small, and
at what it was written for it may be faster.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from gradwright.doctor.examination import Trial, add_sources, judge_journal, try_all
from gradwright.doctor.observe.specimens import SpecimenStore
from gradwright.doctor.observe.watch import environment
from gradwright.doctor.observed import FunctionUse, Kept
from gradwright.doctor.options import Options
from gradwright.doctor.probe.attempts import NOT_APART, Limits
from gradwright.doctor.probe.functions import probe_function
from gradwright.doctor.selection import Selection
from gradwright.doctor.session.facts import CalledByTests, Fact, Flaw, FunctionCalls
from gradwright.doctor.session.journal import Journal, fold
from gradwright.doctor.session.model import Finding, NotExamined, Report, Subject
from gradwright.doctor.treatment import Patients, treat
from gradwright.ground.forked import torch_survives_fork
from gradwright.testing.diagnosed.record import Callers, TestRecord
from gradwright.testing.diagnosed.watched import FunctionsOfTests

_RAISES = "GW215"  # backward-raises
_AT_REAL_SIZES = ("GW303",)  # function-not-needed


def at_sizes_of_tests(options: Options) -> Options:
    """Without the rules that need real sizes, unless they are selected."""
    ignored = tuple(code for code in _AT_REAL_SIZES if not (options.select and code.startswith(options.select)))
    return dataclasses.replace(options, ignore=(*options.ignore, *ignored))


class Examination:
    """Of what ``functions`` has seen by now: its watching must be over."""

    def __init__(self, journal: Journal, options: Options, record: TestRecord, store: SpecimenStore,
                 functions: FunctionsOfTests) -> None:  # fmt: skip
        self._journal, self._options, self._record = journal, at_sizes_of_tests(options), record
        self._store, self._functions = store, functions
        # The project's own before what libraries bring, the first of each definition before its like.
        self._uses = sorted(
            functions.uses.values(), key=lambda use: (use.subject.origin == "library", "~" in use.subject.id)
        )

    def written(self) -> None:
        """What was seen, without trying anything. Cost: milliseconds."""
        self._journal.add(environment(), *(use.subject for use in self._uses), *self._store.descriptions())
        for fact in self._functions.facts():
            function = next(use.function for use in self._uses if use.subject.id == fact.subject)
            if isinstance(fact, FunctionCalls):
                share = self._record.share(function, fact.forward_seconds + fact.backward_seconds)
                fact = dataclasses.replace(fact, share_of_step=share)
            self._journal.add(fact, self._callers(function, fact.subject))
        self._journal.add(*self._functions.not_examined(), *self._store.not_examined())

    def untried(self, why: str) -> None:
        for use in self._uses:
            self._journal.add(NotExamined(use.subject.name, why))

    def judged(self) -> Selection:
        """Findings of what is known by now. Cost: milliseconds."""
        add_sources(self._journal)
        self._journal.progress("judging")
        return judge_journal(self._journal, self._options)

    def tried(self) -> None:
        """Facts from trials, findings, fixes. Cost: at most ``probe_seconds + fix_seconds``."""
        if self._uses and not torch_survives_fork():
            self._journal.add(NotExamined("crashes and memory of subjects tried alone", NOT_APART))
        with warnings.catch_warnings(), torch.inference_mode(False), torch.enable_grad():
            warnings.simplefilter("ignore")  # a session that makes errors of warnings means those of its tests
            try_all([self._trial(use) for use in self._uses], self._journal, self._options.probe_seconds)
            selection = self.judged()
            treat(self._journal, self._patients(), self._options.fix_seconds, selection)

    def report(self) -> Report:
        found = fold(self._journal.path)
        return dataclasses.replace(
            found,
            findings=tuple(_of_tests(finding) for finding in found.findings),
            suppressed=tuple(_of_tests(finding) for finding in found.suppressed),
        )

    def _callers(self, function: Any, subject: str) -> CalledByTests:
        callers = self._record.callers.get(function, Callers())
        return CalledByTests(
            id=f"tests {subject}",
            subject=subject,
            tests=tuple(callers.first),
            count=callers.count,
            seconds=callers.seconds,
        )

    def _trial(self, use: FunctionUse) -> Trial:
        def share(seconds: float) -> float:
            return self._record.share(use.function, seconds)

        return use.subject.name, lambda: self._facts(use, share)

    def _facts(self, use: FunctionUse, share: Callable[[float], float]) -> Iterator[Subject | Fact | NotExamined]:
        specimens = self._specimens(use.subject.id)
        why = self._why_none(use.subject.id)
        if why and not any(any(kept.wanted) for kept in specimens):
            yield NotExamined(f"the gradient of {use.subject.name}", why)
            return
        went_well = {kept.about.id for kept in specimens if kept.cotangents is not None}
        for fact in probe_function(use, specimens, share, Limits()):
            if isinstance(fact, Flaw) and fact.code == _RAISES and fact.specimen in went_well:
                why = f"it ran in the tests, and raised when tried after them, without their fixtures: {fact.message}"
                yield NotExamined(f"the backward of {use.subject.name}", why)
            else:
                yield fact

    def _why_none(self, subject: str) -> str:
        """Why specimens of it may have been withdrawn, "" if none were."""
        if subject in self._functions.checked:
            return "in the tests gw.check alone gives it gradients, which judges it itself"
        if subject in self._functions.raised:
            return "all calls of it that could receive a gradient raised, as the tests expected"
        return ""

    def _specimens(self, subject: str) -> list[Kept]:
        """The largest first, on which costs are counted: of what tests use, it is the nearest to real use."""
        return sorted(self._store.of(subject), key=lambda kept: -kept.about.bytes)

    def _patients(self) -> Patients:
        def specimens(subject: str) -> list[tuple[tuple[Any, ...], tuple[bool, ...]]]:
            return [(kept.args, kept.wanted) for kept in self._specimens(subject)]

        return Patients({use.subject.id: use for use in self._uses}, specimens)


def _of_tests(finding: Finding) -> Finding:
    """Rules speak of the step of a training; here the share is that of the tests that call the Function."""
    said = {name: getattr(finding, name).replace("of the step", "of its tests' time") for name in ("message", "why")}
    return dataclasses.replace(finding, **said)
