"""What is printed of fixes: for people, and as a diff for ``patch``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.text import Text

from gradwright.doctor.mending.choosing import Offer
from gradwright.doctor.mending.combining import MendedFile, Plan
from gradwright.doctor.mending.files import byte_lines
from gradwright.doctor.mending.writing import Written
from gradwright.doctor.render.layout import SEVERITY, Layout
from gradwright.doctor.render.remedies import failures, proof_words, unsafe_words
from gradwright.doctor.render.wording import UNSHOWABLE, clean, counted, listed
from gradwright.doctor.session.hunks import Edit, unified
from gradwright.doctor.session.model import Finding

_INDENT = 2
_SIGNS = {"+": "green", "-": "red", "@": "cyan", "\\": "dim"}


def shown(offers: Sequence[Offer], findings: Sequence[Finding], *, width: int, color: bool) -> str:
    """Every fix with its proof and its diff, then what could not be rewritten, and why; "" if there is neither."""
    layout = Layout(width=width, color=color)
    return layout.printed(_lines(layout, offers, findings))


def _lines(layout: Layout, offers: Sequence[Offer], findings: Sequence[Finding]) -> Iterator[Text]:
    told: dict[tuple[str, tuple[Edit, ...]], Offer] = {}
    for offer in offers:
        yield from _head(layout, offer.finding)
        first = told.setdefault((offer.path, offer.edits), offer)
        if first is not offer and offer.edits:
            yield from _told(layout, f"the same change mends it as {_name(first)}", "green")
            yield Text()
            continue
        yield from _told(layout, proof_words(offer.fix.proof), "green")
        yield from _told(layout, unsafe_words(offer.fix), "bold yellow")
        yield from _told(layout, f"left out: {clean(offer.left)}" if offer.left else "", "yellow")
        yield from _diff(offer.diff)
        yield Text()
    for finding in findings:
        reasons = failures(finding)
        if reasons:
            yield from _head(layout, finding)
            for reason in reasons:
                yield from _told(layout, reason, "dim")
            yield Text()


def _head(layout: Layout, finding: Finding) -> Iterator[Text]:
    first = Text.assemble((finding.code, "bold"), " ", (finding.severity, SEVERITY[finding.severity]), "  ")
    yield from layout.hanging(first, Text.assemble((_where(finding), "bold"), "  ", clean(finding.message)), 7)


def _where(finding: Finding) -> str:
    return clean(str(finding.location) if finding.location.line > 0 else finding.location.path)


def _name(offer: Offer) -> str:
    return f"{offer.finding.code} {_where(offer.finding)}"


def _changes(file: MendedFile) -> int:
    """One change may mend several findings."""
    return len({offer.edits for offer in file.offers})


def _told(layout: Layout, words: str, style: str) -> Iterator[Text]:
    if words:
        yield from layout.hanging(Text(" " * _INDENT), Text(words, style), _INDENT + 2)


def _diff(lines: Sequence[str]) -> Iterator[Text]:
    last = len(lines)
    while last and not lines[last - 1].strip():
        last -= 1
    for number, line in enumerate(lines[:last]):
        text = UNSHOWABLE.sub("\ufffd", line.removesuffix("\n").replace("\t", "    "))
        yield Text(text.rstrip(), "bold" if number < 2 else _SIGNS.get(line[:1], ""))


def bare_diff(files: Sequence[MendedFile]) -> bytes:
    """One diff of all files that get a new text, byte for byte as ``patch -p0`` and ``git apply -p0`` need it."""
    parts = []
    for file in files:
        path = file.path.encode("utf-8", "surrogateescape").decode("latin-1")
        parts += unified(path, byte_lines(file.old), byte_lines(file.new))
    return "".join(parts).encode("latin-1")


def summary(plan: Plan, findings: Sequence[Finding], *, flags: str, script: str) -> str:
    """What could be done now. ``flags`` and ``script`` are what was typed: our options, the script and its own."""
    nothing = _nothing(plan, findings)
    if nothing:
        return nothing
    ready = sum(_changes(file) for file in plan.files)
    left = sum(bool(offer.left) for offer in plan.offers)
    words = []
    if ready:
        where = listed(clean(file.path) for file in plan.files)
        them = "it" if ready == 1 else "them"
        words.append(
            f"{counted(ready, 'fix', 'fixes')} for {where}: gradwright fix{flags} --apply {script} makes {them}"
        )
    if left:
        words.append(f"{counted(left, 'fix is', 'fixes are')} left out, for the reason above")
    return "\n".join([*words, *_untried(plan.files, script)]) + "\n"


def outcome(
    plan: Plan, findings: Sequence[Finding], written: Sequence[Written], refused: Mapping[str, str], *, script: str
) -> str:
    """What was done, file by file."""
    nothing = _nothing(plan, findings)
    if nothing:
        return nothing
    lines = []
    for done in written:
        many = counted(_changes(done.file), "fix was", "fixes were")
        lines.append(f"{clean(done.file.path)}: {many} made; the old text is in {clean(done.kept.name)} beside it")
        if done.other_names:
            names = counted(done.other_names, "other name", "other names")
            lines.append(f"  it had {names} (hard links), which keep the old text")
    lines += [f"not made: {clean(why)}" for why in refused.values()]
    left = sum(bool(offer.left) for offer in plan.offers)
    if left:
        lines.append(f"{counted(left, 'fix was', 'fixes were')} left out, for the reason above")
    return "\n".join([*lines, *_untried([done.file for done in written], script)]) + "\n"


def _nothing(plan: Plan, findings: Sequence[Finding]) -> str:
    if plan.offers:
        return ""
    if not findings:
        return "nothing to fix: nothing was found\n"
    return f"nothing to fix: {counted(len(findings), 'finding')}, none of which has a verified fix\n"


def _untried(files: Sequence[MendedFile], script: str) -> list[str]:
    subjects = dict.fromkeys(clean(name) for file in files for name in file.untried)
    if not subjects:
        return []
    return [
        f"each fix was tried alone; those of {listed(subjects)} meet in one piece of code: "
        f"gradwright diagnose {script} tries them together"
    ]
