"""After the script: probe, judge, rewrite, prove, in that order, in one place.

Each stage writes what it learns to the journal as it learns it; what can't be tried is written down as not examined.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradwright.doctor import rules
from gradwright.doctor.options import Options
from gradwright.doctor.rules.rule import Rule
from gradwright.doctor.selection import Selection
from gradwright.doctor.session.facts import Fact, LoopsTreated
from gradwright.doctor.session.journal import Journal, fold
from gradwright.doctor.session.model import NotExamined, Source, Subject
from gradwright.doctor.source.entered import LoopUse
from gradwright.doctor.source.files import SourceFile, read
from gradwright.doctor.source.places import home, relative
from gradwright.doctor.source.reading import read_facts
from gradwright.doctor.treatment import Called, Patients, treat
from gradwright.errors import UnsupportedTorch
from gradwright.ground import clock

if TYPE_CHECKING:
    from torch import Tensor

    from gradwright.doctor.observe.watch import Watch
    from gradwright.doctor.observed import FunctionUse, LossUse
    from gradwright.doctor.session.model import Proof
    from gradwright.doctor.session.proposal import Proposal

_OF_LOOPS = ("GW301", "GW302", "GW304")  # rules on a loop as a whole, the last of which speaks when it has a fix

RULE_FAILED = "the rule failed"
Trial = tuple[str, Callable[[], Iterator[Subject | Fact | NotExamined]]]


def examine(
    journal: Journal,
    options: Options,
    watch: Watch | None,
    loops: Sequence[LoopUse],
    files: Iterable[SourceFile],
    in_script: Callable[[Proposal, float], Proof | str] | None = None,
) -> None:
    """Facts from the text and from trials, then findings, then fixes, of several ranks on one. ``in_script``: see
    ``Patients``. Cost: at most ``probe_seconds + fix_seconds``."""
    read_subjects, read_of_text = read_facts(files, relative)
    journal.add(*read_subjects, *read_of_text)
    if watch is not None:
        probe(journal, watch, loops, options.probe_seconds)
        if options.leads:  # ranks that measure at once would measure one another
            measure_machine(journal, "script")
    elif "torch" not in sys.modules:
        journal.add(NotExamined("gradients", "the script never imported torch"))
    add_sources(journal)
    journal.progress("judging")
    selection = judge_journal(journal, options)
    if watch is not None and options.leads:
        treat(journal, replace(patients_of(watch, loops), in_script=in_script), options.fix_seconds, selection)
        told = tuple(one.location for one in selection.found if one.code in _OF_LOOPS)
        journal.add(treated := LoopsTreated(id="loops treated", subject="script", told=told))
        judge_journal(journal, options, waited_for=treated.id)
    if "torch" in sys.modules:
        note_lacking(journal)


def note_lacking(journal: Journal) -> None:
    """What this torch was found to lack, where nothing has said so yet."""
    from gradwright.ground.torch_versions.capability import lacking

    if found := [one for one in lacking() if one.of_doctor]:
        said = {item.why for item in fold(journal.path).not_examined}
        journal.add(*(NotExamined(one.serves, one.describe_lack()) for one in found if one.describe() not in said))


def probe(journal: Journal, watch: Watch, loops: Sequence[LoopUse], seconds: float) -> None:
    from gradwright.doctor.probe.attempts import NOT_APART, Limits
    from gradwright.doctor.probe.functions import probe_function
    from gradwright.doctor.probe.loops import probe_loop
    from gradwright.doctor.probe.losses import probe_loss
    from gradwright.doctor.probe.page_faults import probe_page_faults
    from gradwright.ground.forked import torch_survives_fork

    if not torch_survives_fork():
        journal.add(NotExamined("crashes and memory of subjects tried alone", NOT_APART))
    share = watch.clock.share
    # The user's own first; what libraries bring comes with what time is left.
    functions = sorted(watch.functions.tried(), key=lambda use: use.subject.origin == "library")

    def trial_of_function(use: FunctionUse) -> Trial:
        return use.subject.name, lambda: probe_function(use, watch.store.of(use.subject.id), share, Limits())

    def trial_of_loop(use: LoopUse) -> Trial:
        return f"the loop at {use.subject.location}", lambda: probe_loop(use, share, Limits())

    plain = [use for use in loops if use.entries and not use.site.in_function_class]
    journal.add(*(use.subject for use in plain))

    def trial_of_loss(use: LossUse) -> Trial:
        return use.subject.name, lambda: probe_loss(use, Limits())

    page_faults: Trial = ("what page faults cost", lambda: probe_page_faults(watch.faults.facts()))
    written_out = map(trial_of_loss, watch.losses.uses.values())
    try_all(
        [*map(trial_of_function, functions), *map(trial_of_loop, plain), *written_out, page_faults], journal, seconds
    )


def measure_machine(journal: Journal, subject: str, tensors: Iterable[Tensor] = ()) -> None:
    """What this machine can do at best, for the costs that the journal holds. ``tensors``: that the subject is of."""
    from gradwright.doctor.probe.machine import probe_machine

    journal.add(*probe_machine(fold(journal.path), subject, {tensor.device for tensor in tensors}))


def try_all(trials: list[Trial], journal: Journal, seconds: float) -> None:
    """One subject after the other, within ``seconds`` in all; one that upsets the doctor is said not to be examined."""
    until = clock.now() + seconds
    for number, (name, trial) in enumerate(trials):
        journal.progress("trying", name, number, len(trials))
        if clock.now() > until:
            journal.add(NotExamined(name, f"the {seconds:g} s for trying subjects were used up"))
            continue
        try:
            for item in trial():
                journal.add(item)
                if clock.now() > until:
                    journal.add(NotExamined(f"the rest of {name}", f"the {seconds:g} s for trying were used up"))
                    break
        except UnsupportedTorch as error:
            journal.add(NotExamined(name, str(error)))
        except Exception as error:
            # One subject that upsets the doctor must not cost the others their verdicts; it is said, with the place.
            journal.add(NotExamined(name, f"the doctor failed on it: {_told(error)}"))


def _told(error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"


def patients_of(watch: Watch, loops: Sequence[LoopUse]) -> Patients:
    """What was watched, for its treatment."""

    def specimens(subject: str) -> list[tuple[tuple[Any, ...], tuple[bool, ...]]]:
        return [(kept.args, kept.wanted) for kept in watch.store.of(subject)]

    functions = {use.subject.id: use for use in watch.functions.tried()}
    written_out = {use.subject.id: Called(use.function, use.args) for use in watch.losses.uses.values()}
    return Patients(functions, specimens, [use for use in loops if use.entries], written_out)


def source_of(file: SourceFile) -> Source:
    """The file as the session keeps it; a notebook's cell, which lies on no disk, by its text."""
    path = Path(file.path)
    data = path.read_bytes() if path.is_file() else file.text.encode()
    return Source(relative(file.path), hashlib.sha256(data).hexdigest(), file.text)


def add_sources(journal: Journal) -> None:
    """The text of files that subjects stand in and the journal has not (installed ones), for a report to show."""
    known = fold(journal.path)
    have = {source.path for source in known.sources}
    for subject in known.subjects:
        path = subject.location.path
        if path not in have and not path.startswith("<"):
            have.add(path)
            with contextlib.suppress(OSError, SyntaxError, UnicodeDecodeError):
                journal.add(source_of(read(str(Path(home()) / path))))


def judge_journal(journal: Journal, options: Options, waited_for: str = "") -> Selection:
    """Findings out of whatever facts the journal holds; also those of a patient that died early.

    ``waited_for``: only findings with this fact among their evidence, which is there by now. Returns what was found,
    with what ``options`` and the comments in the text keep out of the report.
    """
    report = fold(journal.path)
    selection = Selection(options, report.sources)
    known = {finding.with_fix((), None) for finding in report.findings}  # a patient killed later may have mended some

    def failed(rule: Rule, subject: Subject, error: Exception) -> None:
        journal.add(NotExamined(f"{rule.code} of {subject.name}", f"{RULE_FAILED}: {_told(error)}"))

    for finding in rules.judge(report.subjects, report.facts, failed):
        if finding in known or (waited_for and waited_for not in finding.evidence):
            selection.found.append(finding)
        else:
            selection.tell(journal, finding)
    selection.count(journal)
    return selection
