"""What crosses rooms: frozen data with no tensor and no syntax tree in it.

A :class:`Report` is a whole session, and its JSON form is a contract: every other class here is one of its parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from gradwright.doctor.session.facts import Fact, RankRun
from gradwright.doctor.session.place import Location

SCHEMA_VERSION = 1

# What a report says was not examined when its run was cut short: there may be more findings, and more fixes.
MISSING = "whatever is missing here"
DOCTOR_FAILED = "the doctor itself failed"  # and why: a fault of ours, never the script's
# What a report says was not examined where this torch doesn't let it be watched: no verdict is whole without these two.
CUSTOM_FUNCTIONS, GRADIENT_CALLS = "calls of custom Functions", "calls of backward and autograd.grad"
BY_CTRL_C = "by Ctrl-C"  # as ``stopped_early`` says it

F = TypeVar("F", bound=Fact)

Severity = Literal["error", "warning", "info"]
Category = Literal["gradient", "contract", "speed", "memory", "numerics", "training", "doctor"]

SubjectKind = Literal[
    "function", "callable", "plain_function", "plain_backward", "loop", "gradient_call", "optimizer", "script"
]


@dataclass(frozen=True, slots=True)
class Subject:
    """Something that is judged: a custom Function, a loop, a gradient call site, an optimizer, the script itself."""

    id: str
    kind: SubjectKind
    name: str
    location: Location
    origin: Literal["script", "library"] = "script"


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Shape, dtype, strides and role of one tensor that a specimen holds."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    stride: tuple[int, ...] = ()
    device: str = "cpu"
    requires_grad: bool = False

    def __str__(self) -> str:
        return f"{self.name} {self.dtype}{list(self.shape)}"


@dataclass(frozen=True, slots=True)
class Specimen:
    """One signature of real inputs, kept as detached copies in the patient; only its description travels."""

    id: str
    subject: str
    call: int
    tensors: tuple[TensorSpec, ...] = ()
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Proof:
    """What was tried with a candidate, and how far apart it and the original were.

    ``proved`` means a certificate for all shapes (``certificate`` says which); ``verified`` means it held on exactly
    what ``on`` lists. Of ``mutants_tried`` faulty twins of the candidate (equivalent ones left out) the same trials
    rejected ``mutants_rejected``. ``exact``: the shapes at which outputs and vjps are equal as real formulas. Bytes are
    what a call allocates at its peak; operations what the phase that is timed dispatches, moved bytes what these read
    and write, where that is known and on what the seconds are of. ``run``: what a run of the whole script with the
    change has shown, in words.
    """

    verdict: Literal["proved", "verified"]
    on: tuple[str, ...]
    worst_error: float
    tolerance: float
    mutants_rejected: int
    before_seconds: float | None = None
    after_seconds: float | None = None
    mutants_tried: int = 0
    exact: tuple[str, ...] = ()
    certificate: str = ""
    before_bytes: int | None = None
    after_bytes: int | None = None
    run: str = ""
    before_operations: int | None = None
    after_operations: int | None = None
    before_moved_bytes: int | None = None
    after_moved_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Fix:
    """A change of source that passed its proof, as a unified diff.

    ``unsafe``: at which inputs it does something else, in one sentence: never applied unless asked for. "" if at none.
    """

    diff: str
    proof: Proof
    unsafe: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A change of source that a rewrite proposed; ``counterexample`` says where it failed, ``None`` if it did not."""

    rewrite: str
    diff: str
    counterexample: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault at one place: ``evidence`` holds the ids of the facts that show it."""

    code: str
    name: str
    category: Category
    severity: Severity
    subject: str
    location: Location
    message: str
    why: str
    hints: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    fix: Fix | None = None

    def with_fix(self, candidates: tuple[Candidate, ...], fix: Fix | None) -> Finding:
        return replace(self, candidates=candidates, fix=fix)


@dataclass(frozen=True, slots=True)
class NotExamined:
    """Something that was not looked at, and why not: silence about it is no verdict."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Source:
    """A file of the user's, as it stood when it was read."""

    path: str
    sha256: str
    text: str


@dataclass(frozen=True, slots=True)
class ScriptDeath:
    """The exception that ended the script; ``traceback`` is what Python prints of it, without frames of ours."""

    type: str
    message: str
    traceback: str
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """How the script itself fared. ``exit_code`` is ``None`` while it is not known; minus n: ended by signal n.

    ``module``: its name where it ran as ``python -m NAME``, whose file is ``argv[0]``; "" of a path. ``not_selected``:
    findings that ``select`` and ``ignore`` have left out.
    """

    argv: tuple[str, ...] = ()
    exit_code: int | None = None
    seconds: float = 0.0
    stopped_early: str | None = None
    exception: ScriptDeath | None = None
    rank: int | None = None
    steps: int = 0
    gradients: int = 0
    module: str = ""
    not_selected: int = 0


@dataclass(frozen=True, slots=True)
class Environment:
    """Where the session was made."""

    gradwright: str = ""
    python: str = ""
    torch: str = ""
    device: str = ""
    platform: str = ""
    threads: int = 0
    cwd: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """One session, whole: what ran, what was seen, what it means, what was not looked at.

    Printed, it is the terminal report; in a notebook it shows itself; ``to_json`` is the session file.
    """

    environment: Environment = field(default_factory=Environment)
    script: Script = field(default_factory=Script)
    sources: tuple[Source, ...] = ()
    subjects: tuple[Subject, ...] = ()
    specimens: tuple[Specimen, ...] = ()
    facts: tuple[Fact, ...] = ()
    findings: tuple[Finding, ...] = ()
    suppressed: tuple[Finding, ...] = ()
    not_examined: tuple[NotExamined, ...] = ()
    schema_version: int = SCHEMA_VERSION

    @property
    def ok(self) -> bool:
        """No error and no warning: information alone is clean. Of several ranks, each has a session and ended well, or
        a finding says why not."""
        ill = any(run.missing or run.unexplained for run in self.of(RankRun))
        return not ill and all(finding.severity == "info" for finding in self.findings)

    @property
    def saw_nothing(self) -> bool:
        """Cut short before a gradient was seen: that there is no finding means nothing."""
        script = self.script
        ran = bool(script.argv) or script.exit_code is not None
        watched = script.steps or script.gradients
        return ran and not watched and any(item.what == MISSING for item in self.not_examined)

    @property
    def unwatched(self) -> tuple[str, ...]:
        """Of custom Functions and gradient calls, those that this torch didn't let be watched: that there is no finding
        about them means nothing."""
        return tuple(item.what for item in self.not_examined if item.what in (CUSTOM_FUNCTIONS, GRADIENT_CALLS))

    @property
    def no_clean_bill(self) -> str:
        """Why it means nothing that there is no finding; "" where it does mean something."""
        if NotExamined(MISSING, DOCTOR_FAILED) in self.not_examined:
            return DOCTOR_FAILED
        if self.saw_nothing:
            return "the run was cut short before a gradient was seen"
        return f"{' and '.join(self.unwatched)} can't be watched with this torch" if self.unwatched else ""

    def subject(self, subject_id: str) -> Subject | None:
        return next((subject for subject in self.subjects if subject.id == subject_id), None)

    def source(self, path: str) -> Source | None:
        return next((source for source in self.sources if source.path == path), None)

    def of(self, kind: type[F], subject: str | None = None) -> Iterator[F]:
        """The facts of one kind, of one subject or of all."""
        for fact in self.facts:
            if isinstance(fact, kind) and (subject is None or fact.subject == subject):
                yield fact
