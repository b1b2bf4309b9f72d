"""Where the time goes, line by line, beside what this machine could do at best; and what each fix saves."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from gradwright.doctor.render.page.coloured import CodeLine, Coloured
from gradwright.doctor.render.page.findings import Gain, Told
from gradwright.doctor.render.page.text import hundredths, said, subject_names
from gradwright.doctor.render.wording import counted, number, seconds, size
from gradwright.doctor.session.facts import LineCost, MachineLimits, OpsPerLine
from gradwright.doctor.session.model import Report

_NOTHING = Markup("")
_AROUND = 2  # lines shown above and below those that cost something
_MOST = 160  # lines of one phase
_PHASES = 200  # tables in one page


@dataclass(frozen=True, slots=True)
class HeatLine:
    """One line of source; ``share`` of the phase in hundredths, ``heat`` from 0 to 4."""

    line: CodeLine
    share: float = 0.0
    heat: int = 0
    seconds: str = ""
    operations: str = ""
    scalar: str = ""
    bytes: str = ""


@dataclass(frozen=True, slots=True)
class Heat:
    """One phase of one Function or loop; ``measure`` is what the bars are of; ``rows`` of several files if need be."""

    name: str
    measure: str
    numbers: tuple[tuple[str, str], ...]
    files: tuple[tuple[str, tuple[HeatLine, ...]], ...]


@dataclass(frozen=True, slots=True)
class Costs:
    limits: tuple[tuple[str, str], ...]
    heats: tuple[Heat, ...]
    saved: tuple[tuple[Told, tuple[Gain, ...]], ...]
    left_out: int


def costs(report: Report, findings: Sequence[Told], coloured: Coloured) -> Costs:
    limits = next(report.of(MachineLimits), None)
    names = subject_names(report)
    facts = sorted(report.of(OpsPerLine), key=lambda fact: -fact.seconds if math.isfinite(fact.seconds) else 0.0)
    return Costs(
        limits=tuple(_limits(limits)) if limits else (),
        heats=tuple(_heat(fact, names, limits, coloured) for fact in facts[:_PHASES]),
        saved=tuple((one, one.gains) for one in findings if any(gain.times and gain.share < 100 for gain in one.gains)),
        left_out=max(0, len(facts) - _PHASES),
    )


def _limits(limits: MachineLimits) -> list[tuple[str, str]]:
    return [
        ("memory", f"{_rate(limits.bytes_per_second)}B/s"),
        ("arithmetic", f"{_rate(limits.flops_per_second)}FLOP/s"),
        ("one small operation", seconds(limits.operation_seconds)),
        ("threads", str(limits.threads)),
        ("on", said(limits.device, 100)),
    ]


def _rate(value: float) -> str:
    for step, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if value >= step:
            return f"{value / step:.3g} {unit}"
    return f"{number(value)} "


def _heat(fact: OpsPerLine, names: dict[str, str], limits: MachineLimits | None, coloured: Coloured) -> Heat:
    timed = any(line.seconds > 0 for line in fact.lines)
    counted_ = any(line.operations > 0 for line in fact.lines)
    measure = "time" if timed else "operations" if counted_ else "bytes"
    by_path: dict[str, dict[int, list[LineCost]]] = defaultdict(lambda: defaultdict(list))
    for line in fact.lines:
        by_path[line.location.path][line.location.line].append(line)
    whole = sum(_weight(line, measure) for line in fact.lines)
    if measure == "time" and math.isfinite(fact.seconds):
        whole = max(whole, fact.seconds)
    return Heat(
        name=f"{names.get(fact.subject, said(fact.subject, 200))}, {fact.phase}",
        measure=measure,
        numbers=tuple(_numbers(fact, limits)),
        files=tuple(
            (said(path, 300), tuple(_rows(path, by_line, measure, whole, coloured)))
            for path, by_line in by_path.items()
        ),
    )


def _numbers(fact: OpsPerLine, limits: MachineLimits | None) -> list[tuple[str, str]]:
    made = [("one call", seconds(fact.seconds)), ("operations", f"{fact.operations:,}")]
    more = fact.bytes / fact.minimum_bytes if fact.minimum_bytes > 0 else 0.0
    ratio = f", {more:,.1f} times what it must" if more >= 1.05 else ""
    made.append(("moved", size(fact.bytes) + ratio))
    if fact.minimum_bytes:
        made.append(("must move", size(fact.minimum_bytes)))
    if fact.flops:
        made.append(("floating-point operations", f"{_rate(float(fact.flops))}".strip()))
    far = limits.distance(fact) if limits is not None else None
    if limits is not None and far is not None and math.isfinite(far):
        made.append(("this machine at best", f"{seconds(limits.floor(fact.minimum_bytes, fact.flops))}: {_far(far)}"))
    timed = sum(line.seconds for line in fact.lines)
    if 0 < timed < 0.98 * fact.seconds:
        made.append(("time in no line of these", seconds(fact.seconds - timed)))
    if fact.tried_on:
        smaller = ", smaller than in the run; the time is of a call as the run made it" if fact.shrunk else ""
        made.append(("counted on", said(fact.tried_on, 300) + smaller))
    return made


def _far(ratio: float) -> str:
    if ratio < 1.2:
        return "there is nothing to gain"
    return f"a call takes {ratio:,.0f} times as long" if ratio >= 10 else f"a call takes {ratio:.1f} times as long"


def _weight(line: LineCost, measure: str) -> float:
    value = {"time": line.seconds, "operations": float(line.operations), "bytes": float(line.bytes)}[measure]
    return value if math.isfinite(value) and value > 0 else 0.0


def _rows(
    path: str, by_line: dict[int, list[LineCost]], measure: str, whole: float, coloured: Coloured
) -> list[HeatLine]:
    made: list[HeatLine] = []
    last = 0
    for first, end in _stretches(sorted(by_line)):
        lines = coloured.numbered(path, max(first, last + 1), end)
        if not lines:  # of a file that is not in the session
            lines = tuple(CodeLine(at, _NOTHING) for at in range(first, end + 1) if at in by_line)
        if made and lines and lines[0].number > last + 1:
            made.append(HeatLine(CodeLine(0, _NOTHING)))
        for line in lines:
            made.append(_row(line, by_line.get(line.number, []), measure, whole))
            last = line.number
            if len(made) >= _MOST:
                return made
    while made and not made[-1].heat and not made[-1].line.html:
        made.pop()
    return made


def _stretches(numbers: list[int]) -> list[tuple[int, int]]:
    stretches: list[tuple[int, int]] = []
    for at in numbers:
        if stretches and at - _AROUND <= stretches[-1][1] + 3:
            stretches[-1] = (stretches[-1][0], at + _AROUND)
        else:
            stretches.append((at - _AROUND, at + _AROUND))
    return stretches


def _row(line: CodeLine, costs: list[LineCost], measure: str, whole: float) -> HeatLine:
    if not costs:
        return HeatLine(line)
    share = hundredths(sum(_weight(cost, measure) for cost in costs), whole) if whole else 0.0
    took = sum(cost.seconds for cost in costs)
    operations, scalar = sum(cost.operations for cost in costs), sum(cost.scalar_operations for cost in costs)
    return HeatLine(
        line,
        share=share,
        heat=next((heat for heat, least in ((4, 50), (3, 20), (2, 5)) if share >= least), 1),
        seconds=seconds(took) if took else "",
        operations=f"{operations:,}",
        scalar=counted(scalar, "on a single element", "on single elements") if scalar else "",
        bytes=size(sum(cost.bytes for cost in costs)),
    )
