"""What ranks did differently. Seconds and data differ rightly, and so does what hangs on either; the rest is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from gradwright.doctor.ranks.findings import Told
from gradwright.doctor.render.of_ranks import GRADIENT
from gradwright.doctor.session.facts import FunctionCalls, GradientVerdict, LossValues, RanksDiffer, ReplicaSums
from gradwright.doctor.session.model import Report, Subject

# Of the sum of absolute values. Replicas are equal to the bit; where gradients are not shared, far more parts them.
_PARTED = 1e-7


def differences(reports: dict[int, Report], told: Sequence[Told], ends: dict[int, str]) -> list[RanksDiffer]:
    """Nothing where there is only one report. ``ends``: how each script ended. Cost: linear in the reports."""
    if len(reports) < 2:
        return []
    return [
        *_of_the_run(reports, ends),
        *_of_replicas(reports),
        *_of_functions(reports),
        *_of_losses(reports),
        *_of_findings(told),
    ]


def _of_the_run(reports: dict[int, Report], ends: dict[int, str]) -> Iterator[RanksDiffer]:
    yield from _where_unlike("torch", reports, lambda report: report.environment.torch)
    yield from _where_unlike("python", reports, lambda report: report.environment.python)
    yield from _where_unlike("device", reports, lambda report: report.environment.device)
    yield from _unlike("how the script ended", ends, "script")
    yield from _where_unlike("steps", reports, lambda report: f"{report.script.steps:,}")
    if not _one_pace(reports, lambda report: report.script.gradients):
        yield from _where_unlike("gradient calls", reports, lambda report: f"{report.script.gradients:,}")


def _of_functions(reports: dict[int, Report]) -> Iterator[RanksDiffer]:
    functions: dict[str, Subject] = {}
    for report in reports.values():
        for subject in report.subjects:
            if subject.kind == "function":
                functions.setdefault(subject.id, subject)
    for subject in functions.values():
        calls = {rank: _calls(report, subject.id) for rank, report in reports.items()}
        if not all(calls.values()):
            words = {rank: f"called {number:,} times" if number else "never called" for rank, number in calls.items()}
            yield from _unlike(f"{subject.name}", words, subject.id)
            continue
        if not _one_pace(reports, lambda report, at=subject.id: _calls(report, at)):  # type: ignore[misc]
            yield from _unlike(f"calls of {subject.name}", {rank: f"{n:,}" for rank, n in calls.items()}, subject.id)
        verdicts = {rank: _verdict(report, subject.id) for rank, report in reports.items()}
        yield from _unlike(f"{GRADIENT}{subject.name}", {k: v for k, v in verdicts.items() if v}, subject.id)
        inputs = {rank: _signatures(report, subject.id) for rank, report in reports.items()}
        yield from _unlike(f"inputs of {subject.name}", {k: v for k, v in inputs.items() if v}, subject.id)


def _of_losses(reports: dict[int, Report]) -> Iterator[RanksDiffer]:
    sites = {loss.subject for report in reports.values() for loss in report.of(LossValues)}
    for site in sorted(sites):
        words = {}
        for rank, report in reports.items():
            for loss in report.of(LossValues, site):
                first = loss.first_nonfinite_step
                words[rank] = "finite" if first is None else f"{loss.first_nonfinite or 'not finite'} at step {first}"
        if "finite" in words.values():
            where = next(one.location for report in reports.values() if (one := report.subject(site)) is not None)
            yield from _unlike(f"the loss at {where}", words, site)


def _of_replicas(reports: dict[int, Report]) -> Iterator[RanksDiffer]:
    """Parameters that should be alike, after the last step that all ranks looked after: see ``ReplicaSums``."""
    known = [{fact.subject: fact for fact in report.of(ReplicaSums)} for report in reports.values()]
    alike = len({(report.environment.torch, report.environment.device) for report in reports.values()}) == 1
    for subject in known[0] if alike else ():
        facts = [facts[subject] for facts in known if subject in facts]
        if len(facts) < len(known) or len({fact.parameters for fact in facts}) > 1:
            continue
        sums = [{step: (total, size) for step, total, size in fact.sums} for fact in facts]
        step = max(set.intersection(*(set(one) for one in sums)), default=None)
        if step is None:
            continue
        totals, size = [one[step][0] for one in sums], max(one[step][1] for one in sums)
        if max(totals) - min(totals) > _PARTED * size:
            what = f"parameters that DDP keeps alike, summed up after step {step:,}"
            words = {rank: f"{total:.9g}" for rank, total in zip(reports, totals, strict=True)}
            yield from _unlike(what, words, subject)


def _of_findings(told: Sequence[Told]) -> Iterator[RanksDiffer]:
    for one in told:
        if one.differs and not one.suppressed:
            words = dict.fromkeys(one.ranks, "found") | dict.fromkeys(one.looked, "not found")
            what = f"{one.finding.code} at {one.finding.location}"
            yield from _unlike(what, dict(sorted(words.items())), one.finding.subject)


def _where_unlike(what: str, reports: dict[int, Report], word: Callable[[Report], str]) -> Iterator[RanksDiffer]:
    yield from _unlike(what, {rank: word(report) for rank, report in reports.items()}, "script")


def _unlike(what: str, words: dict[int, str], subject: str) -> Iterator[RanksDiffer]:
    if len(set(words.values())) > 1:
        yield RanksDiffer(id=f"ranks differ: {what} {subject}", subject=subject, what=what, values=tuple(words.items()))


def _one_pace(reports: dict[int, Report], count: Callable[[Report], int]) -> bool:
    """As often per step on all, give or take what a step begun and not ended brings: ranks that took fewer steps did
    less of everything, which their steps tell."""
    whole = all(report.script.exit_code == 0 and not report.script.stopped_early for report in reports.values())
    if whole and len({report.script.steps for report in reports.values()}) == 1:
        return len({count(report) for report in reports.values()}) == 1
    steps = {rank: max(report.script.steps, 1) for rank, report in reports.items()}
    paces = [count(report) / steps[rank] for rank, report in reports.items()]
    return max(paces) - min(paces) <= max(paces) / min(steps.values())


def _calls(report: Report, subject: str) -> int:
    return sum(fact.forward_calls for fact in report.of(FunctionCalls, subject))


def _verdict(report: Report, subject: str) -> str:
    """The worst over inputs and specimens, "" where nothing was judged: that is no difference."""
    found = {fact.verdict for fact in report.of(GradientVerdict, subject)}
    order = ("wrong", "surrogate", "right")
    return next((verdict for verdict in order if verdict in found), "")


def _signatures(report: Report, subject: str) -> str:
    """Of a Function whose calls all had the same; "" of others, whose data may well differ."""
    seen = [one for one in report.specimens if one.subject == subject and one.tensors]
    if len(seen) == 1:
        return ", ".join(f"{one.dtype}[{', '.join(map(str, one.shape))}]" for one in seen[0].tensors)
    return ""
