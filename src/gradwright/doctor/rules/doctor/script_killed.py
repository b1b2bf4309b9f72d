"""What it finds
    The script's process was ended by a signal: a crash in C code (SIGSEGV, SIGBUS, SIGABRT), or somebody outside
    (SIGKILL, SIGTERM); SIGKILL is often the kernel, when memory runs out.

Why it matters
    No Python exception tells where. What had been seen until then is in this report, and the Functions could not be
    tried.

When it is fine
    When you ended it yourself.

The fix
    `python -X faulthandler script.py` prints the Python line of a crash. Against SIGKILL, watch the memory: a graph
    that is kept over steps (`losses.append(loss)`), a batch that is too large.

References
    The documentation of `faulthandler`; "Understanding and fixing out of memory" in the notes of PyTorch.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import ScriptKilled
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW902", "script-killed", "warning", needs=(ScriptKilled,))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for killed in facts.of(ScriptKilled):
        crash = killed.signal in ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGILL", "SIGFPE")
        yield RULE.finding(
            subject,
            at=subject.location,
            message=f"{killed.signal} ended the script after {killed.steps} optimizer steps and {killed.gradients} "
            "gradient calls",
            why="Code in C crashed: no Python exception tells where."
            if crash
            else "The process was ended from outside; SIGKILL is what the kernel sends when memory runs out.",
            hints=["python -X faulthandler shows the Python line of the crash"]
            if crash
            else ["watch the memory of the process: does it grow from step to step?"],
            evidence=[killed.id],
        )
