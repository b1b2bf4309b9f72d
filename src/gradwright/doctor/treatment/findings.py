"""Each finding whose rule names a rewrite gets its fix, or why there is none; loops over rows are found here."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gradwright.doctor import rules
from gradwright.doctor.selection import Selection
from gradwright.doctor.session.facts import ArrayTwin, Fact, LoopRun, LoopShape, LoopsTreated, NumpyDetour, TorchTwin
from gradwright.doctor.session.journal import Journal, fold
from gradwright.doctor.session.model import Finding, NotExamined, Report, Source
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.places import name_in_code, text_of_file
from gradwright.doctor.treatment.alongside import WORTH_A_TRY_ITERATIONS, WORTH_A_TRY_SHARE
from gradwright.doctor.treatment.cases import Case
from gradwright.doctor.treatment.finite import keep_finite
from gradwright.doctor.treatment.known_losses import domain_of, where_it_breaks
from gradwright.doctor.treatment.loops import LoopTreatment
from gradwright.doctor.treatment.numpy_detours import leave_numpy
from gradwright.doctor.treatment.patients import Called, Patients, Specimens
from gradwright.doctor.treatment.plain import plain_function
from gradwright.doctor.treatment.trials import Trials, Tried, declined
from gradwright.ground import clock

if TYPE_CHECKING:
    from gradwright.doctor.observed import FunctionUse
    from gradwright.doctor.prove import Proved
    from gradwright.doctor.session.proposal import Proposal

WORTH_TELLING = 1.5


@dataclass(frozen=True)
class Slow:
    """A loop in which the time goes. ``shape``: what its own lines dispatch, if they dispatch anything."""

    subject: str
    location: Location
    share_of_step: float
    shape: LoopShape | None = None


def treat(journal: Journal, patients: Patients, seconds: float, selection: Selection) -> None:
    """Fixes for the findings in the journal, within ``seconds``; loops over rows are found here, with their fix.

    ``selection``: of the findings so far; it takes those that are made here.
    """
    treatment = _Treatment(journal, patients, clock.now() + seconds, selection)
    shown = fold(journal.path)
    report = replace(shown, findings=tuple(selection.found))  # a loop that is told, but not here, is no other loop
    for finding in shown.findings:
        treatment.treat(finding, report)
    for loop in treatment.other_loops(report) if selection.hangs_on(ArrayTwin, LoopsTreated) else ():
        treatment.rewrite_by_rows(loop, report)
    for detour in report.of(NumpyDetour) if selection.hangs_on(TorchTwin) else ():
        treatment.leave_numpy(detour, report)
    selection.count(journal)


class _Treatment:
    def __init__(self, journal: Journal, patients: Patients, until: float, selection: Selection) -> None:
        self.journal, self.patients, self.selection = journal, patients, selection
        self.trials = Trials(until)
        self.loops = LoopTreatment(patients, self.trials)
        self.rewrites = {rule.rule.code: rule.rule.rewrite for rule in rules.all_rules()}

    def treat(self, finding: Finding, report: Report) -> None:
        rewrite = self.rewrites.get(finding.code)
        source = report.source(finding.location.path)
        if rewrite is None or source is None or finding.fix is not None or not _unchanged(source):
            return
        evidence = [fact for fact in report.facts if fact.id in finding.evidence]
        if rewrite not in ("compile_loop", "batch_gradients") and self.asks_for_its_rank(evidence):
            why = "its Function asks for its rank, and only this rank's answer can be tried"
            self.journal.add(NotExamined(f"a fix of {finding.code} at {finding.location}", why))
            return
        self.journal.progress("proving", f"a fix of {finding.subject}")
        shape = next((fact for fact in evidence if isinstance(fact, LoopShape)), None)
        if rewrite == "compile_loop":
            tried = self.loops.of_shape(shape, report) if shape is not None else Tried()
        elif rewrite == "batch_gradients":
            tried = self.gradient_loop(finding)
        elif rewrite == "plain_forward":
            tried = plain_function(Case(rewrite, finding, evidence, source), report, self.patients, self.trials)
        elif rewrite == "keep_finite":
            tried = keep_finite(Case(rewrite, finding, evidence, source), self.patients, self.trials)
        else:
            tried = self.other(Case(rewrite, finding, evidence, source))
        if tried.candidates or tried.fix:
            self.journal.add(finding.with_fix(tried.candidates, tried.fix))

    def leave_numpy(self, detour: NumpyDetour, report: Report) -> None:
        source = report.source(detour.location.path)
        if source is not None and _unchanged(source):
            leave_numpy(detour, report, source, self.other, self.journal, self.selection)

    def asks_for_its_rank(self, evidence: Sequence[Fact]) -> bool:
        from gradwright.doctor.probe.collectives import asks_processes

        uses = (self.patients.functions.get(subject) for subject in {fact.subject for fact in evidence})
        return any(asks_processes(use.function) for use in uses if use is not None)

    def other(self, case: Case) -> Tried:
        """A fix of a Function's, or of a callable's, as a whole."""
        for subject in dict.fromkeys(fact.subject for fact in case.evidence):
            use = self.patients.functions.get(subject)
            if use is not None and use.subject.origin != "library":
                return self.in_function(case, use)
            if subject in self.patients.callables:
                return self.in_callable(case, self.patients.callables[subject])
        return Tried()

    def in_function(self, case: Case, use: FunctionUse) -> Tried:
        from gradwright.doctor.prove import prove

        specimens = [(args, wanted) for args, wanted in self.patients.specimens(use.subject.id) if any(wanted)]
        namespace = getattr(use.function.forward, "__globals__", {})

        def proof(one: Proposal, deadline: float) -> Proved | str:
            return prove(one, use.function, namespace, specimens, expect=case.expect, deadline=deadline)

        by_text = self.trials.first_that_holds(case.by_text(), proof)
        if by_text.fix is not None:
            return by_text
        proposals, why = self.by_running(case, use, specimens)
        derived = declined(why, "derive_backward") if why else self.trials.first_that_holds(proposals, proof)
        return replace(derived, candidates=by_text.candidates + derived.candidates)

    def in_callable(self, case: Case, called: Called) -> Tried:
        from gradwright.doctor.prove import prove_function

        given = [called.args, *where_it_breaks(case, called.args)]
        within = domain_of(case)
        return self.trials.first_that_holds(
            case.by_text(),
            lambda one, deadline: prove_function(
                one,
                called.function,
                [(args, {}) for args in given],
                expect=case.expect,
                deadline=deadline,
                within=within,
            ),
        )

    def by_running(self, case: Case, use: FunctionUse, specimens: Specimens) -> tuple[Sequence[Proposal], str]:
        """What a run of the forward proposes, on one specimen, cut; and why it is nothing, where there is a reason."""
        from gradwright.doctor.probe.attempts import Limits, attempt
        from gradwright.doctor.prove.specimens import cut, lengths, longest_axis, same_length, tells_axes_apart
        from gradwright.doctor.rewrite import BY_RUNNING, prepare_to_run, propose_by_running

        left = self.trials.seconds_left
        if case.rewrite not in BY_RUNNING or not specimens or left < 1.0:
            return (), ""
        prepare_to_run()
        args = max((args for args, _ in specimens), key=tells_axes_apart)
        small = cut(args, same_length, lengths(args, same_length, longest_axis(args)))
        found = attempt(
            lambda: propose_by_running(case.rewrite, case.finding, case.source.text, use.function, small),
            Limits(min(left, 20.0)),
        )
        if found.how == "returned":
            return found.value or ((), "")
        what = f"a derived backward for {use.subject.name}"
        self.journal.add(NotExamined(what, f"its trial ended early: {found.why}"))
        return (), ""

    def gradient_loop(self, finding: Finding) -> Tried:
        """What was tried on the live graph while the script ran."""
        from gradwright.doctor.gradient_loops import treated

        candidates, fix, why = treated(finding, self.patients.loops)
        if why:
            self.journal.add(NotExamined(f"a fix of the gradients at {finding.location}", why))
        return Tried(tuple(candidates), fix)

    def other_loops(self, report: Report) -> Iterator[Slow]:
        """Loops that no finding is about, in which the time goes all the same: those over rows."""
        told = {id_ for finding in report.findings for id_ in finding.evidence}
        places = {shape.location for shape in report.of(LoopShape) if shape.id in told}
        places |= {finding.location for finding in report.findings}
        for shape in report.of(LoopShape):
            slow = shape.share_of_step >= WORTH_A_TRY_SHARE and shape.iterations >= WORTH_A_TRY_ITERATIONS
            free = not shape.carried or shape.subject in self.patients.functions  # in a Function it may become a kernel
            if slow and free and shape.location not in places:
                places.add(shape.location)
                yield Slow(shape.subject, shape.location, shape.share_of_step, shape)
        for run in report.of(LoopRun):  # whose operations are dispatched in functions that it calls
            subject = report.subject(run.subject)
            if subject is None or run.share_of_step < WORTH_A_TRY_SHARE:
                continue
            if not any(_within(place, subject.location) for place in places):
                yield Slow(subject.id, subject.location, run.share_of_step)

    def rewrite_by_rows(self, slow: Slow, report: Report) -> None:
        source = report.source(slow.location.path)
        if source is None or not _unchanged(source):
            return
        self.journal.progress("proving", f"a fix of the loop at {slow.location}")
        tried = self.loops.of_shape(slow.shape, report) if slow.shape else self.loops.of_subject(slow.subject, source)
        if tried.fix is None and tried.candidates and self.patients.callables:  # somebody asked about this very code
            why = tried.candidates[-1].counterexample or ""
            self.journal.add(NotExamined(f"an array form of the loop at {slow.location}", why))
        before, after = (tried.fix.proof.before_seconds, tried.fix.proof.after_seconds) if tried.fix else (None, None)
        if tried.fix is None or not before or not after or before < WORTH_TELLING * after:
            return
        twin = ArrayTwin(
            id=f"array twin {slow.location} {slow.subject}",
            subject=slow.subject,
            location=slow.location,
            iterations=slow.shape.iterations if slow.shape else 0,
            operations=slow.shape.operations if slow.shape else 0,
            before_seconds=before,
            after_seconds=after,
            share_of_step=slow.share_of_step,
            tried_on=slow.shape.tried_on if slow.shape else "",
            carried=(slow.shape.carried or "") if slow.shape else "",
        )
        self.journal.add(twin)
        about = report.subject(slow.subject)
        for finding in rules.judge([about] if about else [], [*report.facts, twin]):
            if twin.id in finding.evidence:
                self.selection.tell(self.journal, finding.with_fix(tried.candidates, tried.fix))


def _within(inner: Location, outer: Location) -> bool:
    return inner.path == outer.path and outer.line <= inner.line <= (outer.end_line or outer.line)


def _unchanged(source: Source) -> bool:
    """Whether the file still is what ran: nobody is handed a diff of yesterday's text."""
    path = Path(name_in_code(source.path))
    try:
        data = path.read_bytes() if path.is_file() else text_of_file(str(path)).encode()
        return hashlib.sha256(data).hexdigest() == source.sha256
    except OSError:
        return False
