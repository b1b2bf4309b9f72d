"""The report as a terminal shows it, or a pipe without colour."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from rich.cells import cell_len
from rich.text import Text

from gradwright.doctor.render.excerpt import Line
from gradwright.doctor.render.layout import NARROWEST, SEVERITY, Layout
from gradwright.doctor.render.remedies import Remedy
from gradwright.doctor.render.view import Card, Row, View, view
from gradwright.doctor.render.wording import Tone
from gradwright.doctor.session.model import Report

__all__ = ["NARROWEST", "TerminalRenderer", "render"]

_TONE: dict[Tone, str] = {"good": "green", "bad": "bold red", "doubt": "yellow", "quiet": "dim"}
_BODY = 6  # where diffs begin
_LABEL = 9  # where the text beside why, do and more begins


def render(report: Report, *, width: int = 100, color: bool = False) -> str:
    """The whole report as text that ends in a newline.

    ``width`` in cells; source lines are cut to it, prose is wrapped. Below ``NARROWEST`` that is used instead.
    ``color`` decides alone: the environment (NO_COLOR, TERM, a notebook) is the caller's business.
    """
    return TerminalRenderer(width=width, color=color).render(report)


class TerminalRenderer:
    """Lays a report out for one width, with or without colour."""

    def __init__(self, *, width: int = 100, color: bool = False) -> None:
        self._layout = Layout(width=width, color=color)
        self._width = self._layout.width

    def render(self, report: Report) -> str:
        return self._layout.printed(self._lines(view(report)))

    def render_findings(self, report: Report) -> str:
        """The findings alone, each told to the column: beside a program that goes on, or shows its own traceback."""
        lines: list[Text] = []
        for card, finding in zip(view(report).cards, report.findings, strict=True):
            marked = tuple(line for line in card.excerpt if line.mark is not None)
            at = finding.location
            where = f"{card.where}:{at.column}" if at.line > 0 else card.where
            lines += self._card(replace(card, where=where, excerpt=marked))
        return self._layout.printed(lines)

    def _lines(self, seen: View) -> Iterator[Text]:
        yield from self._layout.hanging(Text(), _parted(seen.headline, " · "), 2)
        if seen.death:
            yield Text()
            yield from self._layout.hanging(Text("  "), Text(seen.death, "bold"), 4)
            yield from self._excerpt(seen.death_excerpt, "bold red")
        if seen.rows:
            yield Text()
            yield from self._table(seen.rows)
        if seen.ranks:
            yield Text()
            yield Text("  between ranks", "dim")
            for line in seen.ranks:
                yield from self._layout.hanging(Text("    "), Text(line), 6)
        for card in seen.cards:
            yield Text()
            yield from self._card(card)
        yield Text()
        yield from self._summary(seen)

    # --- the table ---------------------------------------------------------------------------------------------------

    def _table(self, rows: tuple[Row, ...]) -> Iterator[Text]:
        name_room = max(10, self._width // 4)
        cells = [
            (row, Text(row.name), Text.assemble((row.gradient.word, _TONE[row.gradient.tone]), row.gradient.rest))
            for row in rows
        ]
        names = min(name_room, max(cell_len(text) for text in ("Function", *(row.name for row in rows))))
        forward = max(cell_len(text) for text in ("forward", *(row.forward for row in rows)))
        backward = max(cell_len(text) for text in ("backward", *(row.backward for row in rows)))
        room = max(10, self._width - 2 - names - 3 - 3 - forward - 3 - backward)
        gradient = min(room, max(cell_len(text) for text in ("gradient", *(str(row.gradient) for row in rows))))

        def line(name: Text, verdict: Text, ahead: str, back: str, style: str = "") -> Text:
            times = (f"{ahead:>{forward}}   {back:>{backward}}", style)
            return Text.assemble("  ", _padded(name, names), "   ", _padded(verdict, gradient), "   ", times)

        head = line(Text("Function", "dim"), Text("gradient", "dim"), "forward", "backward", "dim")
        totals = "  (totals)"
        yield Text.assemble(head, (totals, "dim")) if cell_len(head.plain) + len(totals) <= self._width else head
        for row, name, verdict in cells:
            named = name.wrap(self._layout.console, names, overflow="fold")
            judged = verdict.wrap(self._layout.console, gradient, overflow="fold")
            for at in range(max(len(named), len(judged))):
                yield line(
                    named[at] if at < len(named) else Text(),
                    judged[at] if at < len(judged) else Text(),
                    row.forward if at == 0 else "",
                    row.backward if at == 0 else "",
                )

    # --- a finding ---------------------------------------------------------------------------------------------------

    def _card(self, card: Card) -> Iterator[Text]:
        style = SEVERITY[card.severity]
        first = Text.assemble((card.code, "bold"), " ", (card.severity, style), "  ")
        yield from self._layout.hanging(first, Text.assemble((card.where, "bold"), "  ", card.message), 7)
        yield from self._excerpt(card.excerpt, style)
        yield from self._labelled("why", [card.why] if card.why else [])
        yield from self._labelled("do", card.hints)
        if card.remedy is not None:
            yield from self._remedy(card.remedy)
        for words in card.failed:
            yield from self._layout.hanging(Text(" " * _BODY), Text(words, "dim"), _BODY + 2)
        yield from self._labelled("more", [card.more] if card.more else [])

    def _labelled(self, label: str, texts: Iterable[str]) -> Iterator[Text]:
        for number, text in enumerate(texts):
            first = Text(f"  {label if number == 0 else '':<{_LABEL - 2}}", "dim")
            yield from self._layout.hanging(first, Text(text), _LABEL)

    def _excerpt(self, lines: tuple[Line, ...], style: str) -> Iterator[Text]:
        numbers = max([5, *(len(str(line.number)) for line in lines)])
        room = self._width - numbers - 3
        offset = _offset(lines, room)
        for line in lines:
            if line.number == 0:
                yield Text(f"{'':{numbers}} ⋮", "dim")
                continue
            yield Text.assemble((f"{line.number:{numbers}} │ ", "dim"), _window(line.text, offset, room))
            if line.mark is not None:
                before, marked, _ = line.parts
                start = max(cell_len(before) - offset, 0)
                end = min(cell_len(before + marked) - offset, room)
                carets = " " * start + "^" * max(1, end - start)
                label = f" {line.label}" if line.label and len(carets) + 1 + cell_len(line.label) <= room else ""
                yield Text.assemble((f"{'':{numbers}} │ ", "dim"), (carets + label, style))

    def _remedy(self, remedy: Remedy) -> Iterator[Text]:
        room = self._width - _BODY - 2
        proof = Text(remedy.proof, "green" if remedy.held else "yellow")
        added = [line for line in remedy.lines if line.sign == "+"]
        last = remedy.lines[-1] if remedy.lines else None
        # Beside a lone new line there is room for a short word on it, as in DESIGN.md's first sight.
        needed = cell_len(last.text) + 3 + cell_len(remedy.proof) if last else 0
        beside = remedy.held and len(added) == 1 and last is added[0] and " -> " not in remedy.proof and needed <= room
        for line in remedy.lines:
            text = Text.assemble(
                " " * _BODY, (f"{line.sign} {_window(line.text, 0, room)}", "green" if line.sign == "+" else "red")
            )
            yield Text.assemble(text, "   ", proof) if beside and line is last else text
        if not beside:
            yield from self._layout.hanging(Text(" " * _BODY), proof, _BODY)
        if remedy.unsafe:
            yield from self._layout.hanging(Text(" " * _BODY), Text(remedy.unsafe, "bold yellow"), _BODY)

    # --- the end -----------------------------------------------------------------------------------------------------

    def _summary(self, seen: View) -> Iterator[Text]:
        summary = Text.assemble((seen.summary, "bold"), f": {seen.how_to_fix}" if seen.how_to_fix else "")
        if not seen.unexamined:
            yield from self._layout.hanging(Text(), summary, 2)
            return
        alone = f" · not examined: {seen.unexamined[0]}"
        if len(seen.unexamined) == 1 and cell_len(summary.plain + alone) <= self._width:
            yield Text.assemble(summary, alone)
            return
        if cell_len(summary.plain) + len(" · not examined:") <= self._width:
            yield Text.assemble(summary, " · not examined:")
        else:
            yield from self._layout.hanging(Text(), summary, 2)
            yield Text("not examined:")
        for item in seen.unexamined:
            named = Text.assemble(item.what, (f": {item.why}" if item.why else "", "dim"))
            yield from self._layout.hanging(Text("  "), named, 4)
        if seen.unlisted:
            yield Text(f"  and {seen.unlisted:,} more; --format json lists them all")


def _parted(text: str, separator: str) -> Text:
    """Parts joined by a dim separator."""
    first, *others = text.split(separator)
    return Text.assemble(first, *(piece for part in others for piece in ((separator, "dim"), part)))


def _padded(text: Text, width: int) -> Text:
    return Text.assemble(text, " " * max(0, width - cell_len(text.plain)))


def _offset(lines: tuple[Line, ...], room: int) -> int:
    """The first cell shown of every line of an excerpt: 0 unless the mark lies outside."""
    for line in lines:
        if line.mark is not None:
            before, marked, _ = line.parts
            start, end = cell_len(before), cell_len(before + marked)
            if end > room:
                return max(0, min(start - 8, end - room + 1) if end - start < room - 8 else start - 8)
    return 0


def _window(text: str, offset: int, room: int) -> str:
    """``room`` cells of ``text`` from cell ``offset`` on; an ellipsis stands where something was cut away."""
    if offset == 0 and cell_len(text) <= room:
        return text
    made, at = [], 0
    for character in text:
        size = cell_len(character)
        if at >= offset and at + size <= offset + room:
            made.append(character)
        elif at < offset < at + size:
            made.append(" " * (at + size - offset))  # the right half of a wide character
        at += size
    shown = "".join(made)
    if offset:
        shown = "…" + " " * (cell_len(shown[:1]) - 1) + shown[1:] if shown else "…"
    if at > offset + room:
        while cell_len(shown) >= room:
            shown = shown[:-1]
        shown += "…"
    return shown
