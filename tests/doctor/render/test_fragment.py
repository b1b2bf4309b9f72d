"""The fragment for notebooks: the terminal's words, escaped, whole by itself."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

from gradwright.doctor.render.fragment import render
from gradwright.doctor.session.model import NotExamined, Report, ScriptDeath

VOID = {"br", "hr", "img", "input", "link", "meta"}


class Outline(HTMLParser):
    """Tags, attributes and text of a fragment; refuses tags that are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.text = ""
        self.marked: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open[-1:] == ["mark"]:
            self.marked.append(data)
        if "style" not in self._open:
            self.text += data


def test_fragment_says_what_the_terminal_says(make):
    page = Outline(render(make.first_sight()))
    for words in (
        "2 custom Functions · 40 steps watched · the script ran 25.1 s and exited 0",
        "WRONG in w: half of what it is",
        "right  (8 checks, 4 inputs)",
        "Scale.backward returns half the gradient of w",
        "   19 │             grad_x[row, col] = grad_output[row, col] * 2 * x[row, col]   once per element\n",
        "- 3 lines\n+ grad_x = grad_output * 2 * x",
        "verified on 4 inputs, worst difference 0: 14.1 s -> 9 ms",
        "2 findings (1 error, 1 warning), 2 verified fixes",
        "second order of Scale",
    ):
        assert words in page.text
    assert page.marked == ["grad_x[row, col]", "0.5 * x.t() @ g"]


def test_fragment_fetches_nothing_and_runs_nothing(make):
    page = Outline(render(make.first_sight()))
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert set(page.attributes) <= {"class"}


def test_what_the_user_wrote_is_text_wherever_it_stands(make):
    evil = "</style><script>alert(1)</script>&amp;\"'"
    report = Report(
        script=replace(make.script, exception=ScriptDeath(evil, evil, "")),
        sources=(make.source(evil),),
        subjects=(make.subject(evil),),
        facts=(make.verdict(evil, evil, verdict="unknown", reason=evil),),
        findings=(make.finding(message=evil, why=evil, hints=(evil,), location=replace(make.at, line=1)),),
        not_examined=(NotExamined(evil, evil),),
    )
    page = Outline(render(report))
    assert "script" not in page.tags
    assert page.text.count(evil) >= 7


def test_empty_report_has_no_table_and_no_findings():
    page = Outline(render(Report()))
    assert not {"table", "section", "ul"} & set(page.tags)
    assert "nothing wrong was found" in page.text


def test_unexamined_things_beyond_the_first_are_counted():
    page = Outline(render(Report(not_examined=tuple(NotExamined(f"thing {at}", "") for at in range(1008)))))
    assert "and 1,000 more, all in the JSON" in page.text
