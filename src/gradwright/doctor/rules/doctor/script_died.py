"""What it finds
    A script that ended with an exception which no other rule explains.

Why it matters
    What comes after the exception was not run, so it was not examined: silence about it is no verdict.

When it is fine
    If the script is meant to end so. A Ctrl-C and `sys.exit` are not reported. After a loss that was nan or infinite,
    it is told as information.

The fix
    Mend the exception (its traceback is in the session) and run `gradwright diagnose` again.

References
    None: this is the doctor speaking of itself.
"""

import math
from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import LossValues, NonfiniteBegins, ScriptDied
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW901", "script-died", "warning", needs=(ScriptDied, NonfiniteBegins, LossValues), last_resort=True)

_AFTER_NAN = " The loss was not finite any more by then; where that begins is told, and may be why."
_POLITE = ("KeyboardInterrupt", "SystemExit")


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    after_nan = any(facts.all(NonfiniteBegins)) and any(not math.isfinite(loss.last) for loss in facts.all(LossValues))
    for death in facts.of(ScriptDied):
        if death.type in _POLITE or ("ended", "on request") in death.details:
            continue
        first = death.message.strip().partition("\n")[0]
        what = "the script" if subject.kind == "script" else subject.name
        where = f" in {death.function}" if death.function not in ("", "<module>") else ""
        yield RULE.finding(
            subject,
            at=death.location or subject.location,
            message=f"{what} ended with {death.type}{f': {first}' if first else ''}{where}",
            why="Nothing that comes after it was examined." + (_AFTER_NAN if after_nan else ""),
            hints=[f"tensors there: {', '.join(death.tensors[:8])}"] if death.tensors else [],
            evidence=[death.id],
            severity="info" if after_nan else None,
        )
