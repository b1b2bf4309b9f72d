"""The strip at the top: is it wrong, how did it end, what to do; where it ran, and what differs between ranks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from gradwright.doctor.render.page.figures import Table, table
from gradwright.doctor.render.page.text import said
from gradwright.doctor.render.view import View
from gradwright.doctor.render.wording import Tone, counted, ending, listed, seconds
from gradwright.doctor.session.facts import RankRun, RanksDiffer
from gradwright.doctor.session.model import Report, Severity

_COLUMNS = 8


@dataclass(frozen=True, slots=True)
class Tile:
    """One number of the strip."""

    value: str
    what: str
    tone: Tone


@dataclass(frozen=True, slots=True)
class Strip:
    """``tone`` is that of the whole session, ``answer`` its one sentence."""

    title: str
    tone: Tone
    answer: str
    tiles: tuple[Tile, ...]
    fixes: int
    environment: tuple[tuple[str, str], ...]
    ranks: Table | None
    differing: Table | None


def strip(report: Report, seen: View) -> Strip:
    severities = Counter(finding.severity for finding in report.findings)
    fixes = sum(finding.fix is not None for finding in report.findings)
    wrong = [row.name for row in seen.rows if row.gradient.tone == "bad"]
    bad = bool(severities["error"] or wrong or _died(report))
    return Strip(
        title=said(" ".join(report.script.argv[:1]), 200) or listed([row.name for row in seen.rows[:3]]) or "a session",
        tone="bad" if bad else "doubt" if severities["warning"] or not report.ok or report.no_clean_bill else "good",
        answer=_answer(report, seen, wrong),
        tiles=tuple(_tiles(seen, severities, fixes)),
        fixes=fixes,
        environment=tuple(_environment(report)),
        ranks=_ranks(report),
        differing=_differing(report),
    )


def _died(report: Report) -> bool:
    return report.script.exception is not None or (report.script.exit_code or 0) < 0


def _answer(report: Report, seen: View, wrong: list[str]) -> str:
    if len(wrong) == 1:
        return f"The gradient of {said(wrong[0], 200)} is wrong"
    if wrong:
        more = f" and {len(wrong) - 4} more" if len(wrong) > 5 else ""
        named = wrong[:4] if more else wrong
        return f"{len(wrong)} gradients are wrong: {', '.join(named) if more else listed(named)}{more}"
    errors = [card.message for card in seen.cards if card.severity == "error"]
    warnings = [card.message for card in seen.cards if card.severity == "warning"]
    if len(errors) > 1:
        return f"{counted(len(errors), 'error')} found"
    if not errors and _died(report):
        return f"The script {ending(report.script)}"
    if len(errors or warnings) == 1:
        return _sentence(said((errors or warnings)[0], 160))
    if warnings:
        return f"{'No gradient is wrong, ' if _judged(seen) else ''}{len(warnings)} things cost or risk something"
    return _sentence(seen.summary)


def _judged(seen: View) -> bool:
    return any(row.gradient.tone == "good" for row in seen.rows)


def _sentence(words: str) -> str:
    """Begins with a capital, unless it begins with something of the program's."""
    first = words.partition(" ")[0]
    return words[:1].upper() + words[1:] if first.isalpha() and first.islower() else words


def _tiles(seen: View, severities: Counter[Severity], fixes: int) -> list[Tile]:
    tones = Counter(row.gradient.tone for row in seen.rows)
    errors, warnings = severities["error"], severities["warning"]
    made = [
        Tile(f"{errors:,}", "error" if errors == 1 else "errors", _if(errors, "bad")),
        Tile(f"{warnings:,}", "warning" if warnings == 1 else "warnings", _if(warnings, "doubt")),
        Tile(f"{severities['info']:,}", "info", "quiet"),
        Tile(f"{fixes:,}", "checked fix" if fixes == 1 else "checked fixes", _if(fixes, "good")),
    ]
    if seen.rows:
        made.append(Tile(f"{tones['good']:,} of {len(seen.rows):,}", "gradients right", _if(tones["good"], "good")))
    if tones["bad"]:
        made.append(Tile(f"{tones['bad']:,}", "wrong", "bad"))
    return made


def _if(count: int, tone: Tone) -> Tone:
    return tone if count else "quiet"


def _environment(report: Report) -> list[tuple[str, str]]:
    where = report.environment
    known = {
        "torch": where.torch,
        "device": where.device,
        "threads": str(where.threads) if where.threads else "",
        "gradwright": where.gradwright,
        "python": where.python,
        "platform": where.platform,
    }
    return [(what, said(value, 200)) for what, value in known.items() if value]


def _ranks(report: Report) -> Table | None:
    runs = sorted(report.of(RankRun), key=lambda run: run.rank)
    if not runs:
        return None
    rows = [
        (
            f"{run.rank} of {run.world_size}",
            said(run.missing) or ("exit code not known" if run.exit_code is None else f"exited {run.exit_code}"),
            seconds(run.seconds),
            f"{run.steps:,}",
            f"{run.gradients:,}",
            run.session,
        )
        for run in runs
    ]
    return table(("rank", "how it ended", "time", "steps", "gradient calls", "its session"), rows)


def _differing(report: Report) -> Table | None:
    """A column per rank; of many ranks the words of every face are shorter."""
    differing = list(report.of(RanksDiffer))
    if not differing:
        return None
    ranks = sorted({rank for one in differing for rank, _ in one.values})
    if len(ranks) > _COLUMNS:
        return None
    rows = [(one.what, *(dict(one.values).get(rank, "-") for rank in ranks)) for one in differing]
    return table(("what", *(f"rank {rank}" for rank in ranks)), rows)
