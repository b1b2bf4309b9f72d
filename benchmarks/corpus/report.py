"""From verdicts to figures: recall by kind of fault and by spoiler, false alarms by name, causes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

OURS = ("quick", "standard")
BOTH = "gradcheck + gradgradcheck"
SHIPPED = "autograd_function_db"

Line = dict[str, Any]
Judged = dict[str, Any]


def gathered(lines: Iterable[Line]) -> list[Judged]:
    """One entry per case that is kept: what it is, and under ``verdicts`` each judge's line."""
    about: dict[str, Judged] = {}
    verdicts: dict[str, dict[str, Line]] = defaultdict(dict)
    for line in lines:
        if line["what"] == "case":
            about[line["case"]] = line
        else:
            verdicts[line["case"]][line["what"]] = line
    cases = []
    for key, case in about.items():
        found = verdicts[key]
        slow, second = found.get("gradcheck"), found.get("gradgradcheck")
        if slow and second:
            answers = [slow["rejected"], second["rejected"]]
            found[BOTH] = {
                "rejected": True if True in answers else slow["rejected"],
                "why": second["why"] or slow["why"],
            }
        if case["kept"]:
            cases.append(case | {"verdicts": found})
    return cases


def _judges(asked: list[str]) -> list[str]:
    shown = [name for name in asked if name != "gradgradcheck"]
    if "gradgradcheck" in asked and "gradcheck" in asked:
        shown.insert(shown.index("gradcheck") + 1, BOTH)
    return shown


def _rate(cases: list[Judged], judge: str) -> str:
    """Rejected of those that it judged."""
    answers = [case["verdicts"][judge]["rejected"] for case in cases if judge in case["verdicts"]]
    answers = [answer for answer in answers if answer is not None or judge in OURS]
    rejected = sum(answer is True for answer in answers)
    if not answers:
        return "-"
    return f"{100 * rejected / len(answers):.1f} %" + (f" of {len(answers)}" if judge == "opcheck" else "")


def _count(cases: list[Judged], judge: str) -> str:
    answers = [case["verdicts"][judge]["rejected"] for case in cases if judge in case["verdicts"]]
    answers = [answer for answer in answers if answer is not None or judge in OURS]
    return f"{sum(answer is True for answer in answers)} of {len(answers)}" if answers else "-"


def _right_cause(case: Judged, judge: str, first: bool) -> bool:
    causes = case["verdicts"][judge]["causes"]
    return any(cause in case["accepted"] for cause in (causes[:1] if first else causes))


def _cause_rate(cases: list[Judged], judge: str, first: bool) -> str:
    rejected = [case for case in cases if case["verdicts"].get(judge, {}).get("rejected")]
    if judge not in OURS or not rejected:
        return "-"
    return f"{100 * sum(_right_cause(case, judge, first) for case in rejected) / len(rejected):.1f} %"


def summary(cases: list[Judged], asked: list[str]) -> dict[str, Any]:
    """Tables by title, rows by name, columns by judge; and the names of the false alarms."""
    judges = _judges(asked)
    own = [case for case in cases if case["operator"] != SHIPPED]
    spoiled = [case for case in own if case["kind"] != "right"]
    right = [case for case in own if case["kind"] == "right"]
    shipped_right, shipped_wrong = _shipped(cases)
    kinds = [("wrong value", "wrong value"), ("contract", "contract gradcheck never promised")]

    def row(chosen: list[Judged], tell: Callable[[list[Judged], str], str] = _rate) -> dict[str, Any]:
        return {"cases": len(chosen)} | {judge: tell(chosen, judge) for judge in judges}

    recall = {}
    if spoiled:
        recall = {told: row([case for case in spoiled if case["kind"] == kind]) for kind, told in kinds}
        recall["all spoiled"] = row(spoiled)
    recall["right ones rejected"] = row(right, _count)
    recall["right ones rejected, not at a kink"] = row([case for case in right if not case["kinked"]], _count)
    recall[f"right ones of {SHIPPED} rejected"] = row(shipped_right, _count)
    recall[f"wrong ones of {SHIPPED} rejected"] = row(shipped_wrong, _count)
    causes = {}
    for kind, told in (*kinds, ("", "all spoiled")):
        chosen = [case for case in spoiled if kind in ("", case["kind"])]
        causes[told] = {
            f"{judge}, {which}": _cause_rate(chosen, judge, which == "first finding")
            for judge in judges
            if judge in OURS
            for which in ("first finding", "any finding")
        }
    spoilers: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(case["spoiler"] for case in sorted(spoiled, key=lambda c: c["kind"], reverse=True)):
        chosen = [case for case in spoiled if case["spoiler"] == name]
        ours = next((judge for judge in ("standard", "quick") if judge in judges), "")
        spoilers[name] = row(chosen) | {"cause right": _cause_rate(chosen, ours, True)}
    return {
        "operators": len({case["operator"] for case in own}),
        "spoilers": len(spoilers),
        "results": recall,
        "tables": {"Cause named rightly, of those rejected": causes, "By spoiler": spoilers} if spoiled else {},
        "notes": _notes(own, len(spoilers)),
        "false_alarms": {
            judge: sorted(
                f"{case['case']}: {case['verdicts'][judge]['why']}"
                for case in [*right, *shipped_right]
                if case["verdicts"].get(judge, {}).get("rejected")
            )
            for judge in judges
        },
        "no_verdict": {
            judge: sum(case["verdicts"].get(judge, {"rejected": 0})["rejected"] is None for case in own)
            for judge in judges
        },
    }


def _notes(cases: list[Judged], spoilers: int) -> list[str]:
    operators = len({case["operator"] for case in cases})
    kinked = len({case["operator"] for case in cases if case["kinked"]})
    return [
        f"{operators} operators of torch's op_db, {spoilers} spoilers; each spoiler is applied to an operator once, "
        "transparent or opaque in turn, and left out where it changes nothing that can be measured. "
        f"{kinked} operators are at a kink at their sample. Figures are the share that was rejected, of those judged; "
        "opcheck judges a sample, as custom operators.",
        "A cause is right if it is one of the words that are true of the fault there: what comes to a constant factor "
        "at this sample may be called one.",
    ]


def _shipped(cases: list[Judged]) -> tuple[list[Judged], list[Judged]]:
    chosen = [case for case in cases if case["operator"] == SHIPPED]
    return [case for case in chosen if not case["fault"]], [case for case in chosen if case["fault"]]


def misses(cases: list[Judged]) -> str:
    """Every false alarm, miss and wrong cause of gradwright, by level and spoiler; ``corpus.case`` takes the keys."""
    parts = []
    for judge in OURS:
        groups: dict[tuple[str, str], list[str]] = defaultdict(list)
        for case in cases:
            verdict = case["verdicts"].get(judge)
            if verdict is None:
                continue
            why, spoiled = verdict["why"], case["kind"] != "right"
            if case["fault"]:
                continue
            if verdict["rejected"] is None:
                groups["0 NO VERDICT", case["spoiler"]].append(f"{case['case']}: {why}")
            elif verdict["rejected"] and not spoiled:
                groups["1 FALSE ALARM", case["spoiler"]].append(f"{case['case']}: {why}")
            elif spoiled and not verdict["rejected"]:
                groups["2 MISS", case["spoiler"]].append(f"{case['case']}: {why}")
            elif spoiled and not _right_cause(case, judge, True):
                told = f"{case['case']}: {verdict['causes']}, not {case['accepted']}: {why}"
                groups["3 CAUSE", case["spoiler"]].append(told)
        for (what, spoiler), entries in sorted(groups.items()):
            parts.append(f"== {judge} · {what[2:]} · {spoiler} · {len(entries)}\n" + "\n".join(entries) + "\n")
    return "\n".join(parts)


def problems(lines: Iterable[Line], fit: Iterable[str]) -> list[str]:
    """Why these figures can't stand: cases that could not be measured, fit operators without a case."""
    seen, failed = set(), []
    for line in lines:
        if line["what"] == "case":
            seen.add(line["operator"])
            if line["failed"]:
                failed.append(f"{line['case']}: {line['failed']}")
    absent = sorted(set(fit) - seen)
    found = [f"{len(failed)} cases could not be measured ({failed[0]})"] if failed else []
    return found + ([f"{len(absent)} operators have no case: {', '.join(absent)}"] if absent else [])


def as_text(data: dict[str, Any]) -> str:
    lines = [f"PROBLEM: {problem}" for problem in data["problems"]]
    lines += [f"{data['operators']} operators, {data['spoilers']} spoilers; no verdict: {data['no_verdict']}"]
    for title, rows in {"": data["results"], **data["tables"]}.items():
        lines.append(f"\n{title}")
        for name, row in rows.items():
            lines.append(f"{name[:46]:46} " + "  ".join(f"{column}: {value}" for column, value in row.items()))
    lines.append("")
    for judge, names in data["false_alarms"].items():
        lines += [f"FALSE ALARM {judge}: {name}" for name in names[:40]] if judge in OURS else []
    return "\n".join(lines)
