"""What it finds
    A profiler of torch's (`torch.profiler.profile`, `torch.autograd.profiler.profile`) that was on at 64 backwards and
    more, and at nine in ten of them: around the whole training, without a schedule.

Why it matters
    It writes down each operation and keeps all of it until it is left. A step of a small network (four layers, 0.8 ms)
    took half as long again, and left 0.4 MB behind each time.

When it is fine
    In a script that is there to be profiled; a few steps are enough for that, and are not reported. Under a schedule
    most steps are left out; marks for a tool outside (`emit_nvtx`) are not kept.

The fix
    Take it out, or give it a schedule and call `prof.step()`:
    `schedule=torch.profiler.schedule(wait=10, warmup=2, active=3, repeat=1)`.

References
    "Using profiler to analyze long-running jobs" in PyTorch's recipe on the profiler.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import ProfilerOn
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW318", "profiler-left-on", "warning", needs=(ProfilerOn,))

_FEWEST, _SHARE = 64, 0.9


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for seen in facts.of(ProfilerOn):
        if seen.under < _FEWEST or seen.under < _SHARE * seen.backwards:
            continue
        yield RULE.finding(
            subject,
            at=seen.location or subject.location,
            message=f"a profiler was on at {seen.under:,} of {seen.backwards:,} backwards",
            why="It writes down each operation and keeps all of it until it is left: memory grows with every step.",
            hints=[
                "take it out, or look at a few steps only: "
                "schedule=torch.profiler.schedule(wait=10, warmup=2, active=3, repeat=1), and prof.step() after each"
            ],
            evidence=[seen.id],
        )
