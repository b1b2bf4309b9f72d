"""What it finds
    A `backward` on the CPU that spends at least a tenth of its CPU time, and a millisecond, on page faults: its
    buffers are handed back to the system when they are freed, and come back as new pages, call after call. Counted
    while the script ran; what a fault costs is measured by a trial on the same machine, before and after freed memory
    stays.

Why it matters
    A new page is mapped and zeroed at the first touch. A sum of 40 MB takes 18 ms in a fresh buffer and 3 ms in one
    whose pages stayed. glibc keeps buffers of up to 32 MiB by itself, and often not those either.

When it is fine
    When the process has to be small between its steps. This is information, not a fault.

The fix
    `gradwright.retain_freed_memory()` at the start of the script: freed buffers stay with the process. It holds for all
    of the process and can't be undone; the process stays as large as it ever was.

References
    mallopt(3): M_MMAP_THRESHOLD, M_TRIM_THRESHOLD.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.costs import duration
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import FreshBuffers, PageFaults
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW401", "buffers-allocated-anew", "info", needs=(PageFaults, FreshBuffers))

_SHARE = 0.1
_SECONDS = 1e-3
_PAGE = 4096


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    trial = next(facts.all(FreshBuffers), None)
    if trial is None or trial.faults == 0:
        return
    each = max(trial.seconds - trial.kept_seconds, 0.0) / trial.faults
    for seen in facts.of(PageFaults):
        # Where the process grows, pages are new whatever the allocator does.
        anew = max(0, seen.faults - seen.grown_bytes // _PAGE)
        saved = anew * each
        share = min(1.0, saved / max(seen.seconds, 1e-9))
        if saved < _SECONDS or share < _SHARE:
            continue
        in_step = max(0, seen.step_faults - seen.grown_bytes // _PAGE) * each
        yield RULE.finding(
            subject,
            at=subject.location,
            message=f"this backward spends about {share * 100:.0f} % of its CPU time on page faults: its buffers are "
            "allocated anew each time",
            why=f"{anew:,} page faults a call, in the median, and {seen.step_faults:,} page faults from one backward "
            f"to the next. One costs {duration(each)} here: a fresh buffer of {trial.buffer_bytes // 1_000_000} MB "
            f"took {duration(trial.seconds)} to fill, and {duration(trial.kept_seconds)} where freed memory "
            "stayed with the process.",
            hints=[
                f"gradwright.retain_freed_memory() at the start would save about {duration(saved)} of the "
                f"{duration(seen.seconds)} of CPU time that a backward takes here, and up to {duration(in_step)} a "
                "step",
                "it is process-wide and can't be undone",
            ],
            evidence=[seen.id, trial.id],
        )
