"""Whatever the user's program is called and says, it is text in the page: read by a parser, and in a real Chromium."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from dataclasses import replace

import pytest
from tests.doctor.render.page.outline import Outline
from tests.doctor.render.page.sessions import everything, hostile, linked, odd

from gradwright.doctor.render import render
from gradwright.doctor.session import codec
from gradwright.doctor.session.facts import FunctionFormula
from gradwright.doctor.session.model import Report
from gradwright.doctor.session.place import Location

TEXTS = {
    "script": "</script><script>alert(1)</script>",
    "comment": "<!--<script>",
    "image": "<img src=https://example.invalid/x onerror=alert(1)>",
    "attribute": "\" onmouseover=alert(1) x='\" autofocus onfocus=alert(1) '",
    "style": "</style><style>*{display:none}</style>",
    "template": "{{ 7*7 }}{% include 'x' %}${alert(1)}",
    "link": "<a href=\"javascript:alert(1)\">javascript:alert(1)</a>",
    "entity": "&lt;script&gt;alert(1)&lt;/script&gt;&#60;b>",
    "plotly": "<a href='https://example.invalid'>x</a><b>%{x}</b>@bad $x$",
    "direction": "\u202eevil\u2066\u200f",
    "surrogate": "a\ud800b\udfffc",
    "controls": "a\x00b\x1b[31mc\x1b]0;title\x07d\x85e\x7f\x0bf",
    "separators": "a\u2028b\u2029c\r\nd\re",
    "tensor": "tensor([[nan, inf], [1e+38, -0.0]], device='cuda:0', grad_fn=<MulBackward0>)",
    "long": "x" * 100_000,
}  # fmt: skip
ALL = "".join(text for name, text in TEXTS.items() if name != "long")
# What an element of ours may carry. `style` holds widths and heights alone.
ATTRIBUTES = {
    "aria-hidden", "aria-label", "aria-labelledby", "aria-live", "autocomplete", "charset", "checked", "class",
    "content", "data-code", "data-severity", "hidden", "href", "http-equiv", "id", "lang", "method", "name", "open",
    "placeholder", "role", "scope", "spellcheck", "style", "tabindex", "title", "type", "value",
}  # fmt: skip
UNSHOWABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def page(report: Report) -> str:
    return render(report, "html")


def held(text: str, expected: Outline) -> Outline:
    """The page's outline, if nothing in it is more than text."""
    outline = Outline(text)
    assert len(outline.scripts) == len(expected.scripts)
    assert not outline.comments
    assert {name for _, name, _ in outline.attributes} <= ATTRIBUTES
    assert set(outline.tags) <= set(expected.tags)
    for tag, name, value in outline.attributes:
        if name == "href":
            assert re.fullmatch(r"#[a-z]+(-\d+)?", value), (tag, value)
        if name == "style":
            assert re.fullmatch(r"(width: [\d.]+%|height: \d+px)", value), (tag, value)
    body = re.sub(r"<(script|style)\b.*?</\1>", "", text, flags=re.DOTALL)
    assert not UNSHOWABLE.search(body)
    text.encode()  # no lone surrogate
    return outline


@pytest.mark.parametrize("name", TEXTS)
def test_hostile_text_in_every_field_stays_text(make, name):
    report = everything(make)
    outline = held(page(hostile(report, TEXTS[name])), Outline(page(report)))
    assert all(json.loads(data) for data in outline.data)


@pytest.mark.parametrize("whole", [0, -1, 1, 10**15])
@pytest.mark.parametrize("real", [math.nan, math.inf, -math.inf, 0.0, -1.0, 1e308, 1e-320])
def test_odd_numbers_are_shown_and_drawn(make, whole, real):
    report = everything(make)
    outline = held(page(odd(report, whole, real)), Outline(page(report)))
    assert all(json.loads(data) for data in outline.data)


@pytest.mark.parametrize("name", ["script", "attribute", "link", "surrogate", "separators"])
def test_hostile_ids_and_paths_stay_text(make, name):
    report = everything(make)
    held(page(linked(report, TEXTS[name])), Outline(page(report)))


@pytest.mark.parametrize("name", TEXTS)
def test_hostile_source_and_diffs_stay_text(make, name):
    report, text = everything(make), TEXTS[name]
    lines = [f"{line}  # {text}" for line in make.source().text.split("\n")]
    fixed = report.findings[1]
    assert fixed.fix is not None
    diff = fixed.fix.diff.replace("\n+", f"\n+# {text}\n+", 1)
    findings = (*report.findings[:1], replace(fixed, fix=replace(fixed.fix, diff=diff)))
    hostile_report = replace(report, sources=(make.source("\n".join(lines)),), findings=findings)
    assert len(page(hostile_report)) < 3_000_000
    held(page(hostile_report), Outline(page(report)))


def test_line_of_a_million_characters_is_cut(make):
    line = "x = '" + "é" * 1_000_000 + "'"
    finding = make.finding(location=Location("train.py", 2, 500_000, 2, 500_009))
    report = Report(sources=(make.source(f"import torch\n{line}\n"),), findings=(finding,))
    text = page(report)
    assert "é" * 300 in text
    assert "é…" in text
    assert len(text) < 100_000


def test_every_string_of_a_session_is_reached_by_the_generator(make):
    """A field that a new fact brings is hostile in these tests too, unless it is a choice or a link."""
    mark = "\u2620"
    made = codec.encode(hostile(everything(make), mark))
    untouched: set[str] = set()

    def walk(value: object, name: str) -> None:
        if isinstance(value, dict):
            for key, one in value.items():
                walk(one, key)
        elif isinstance(value, list):
            for one in value:
                walk(one, name)
        elif isinstance(value, str) and value not in ("", mark, "nan", "inf", "-inf"):
            untouched.add(name)

    walk(made, "")
    choices = {"kind", "severity", "category", "phase", "verdict", "spans", "origin"}
    assert untouched <= choices | {"id", "subject", "path", "evidence", "whom", "diff"}


def test_a_parser_sees_what_was_not_escaped(make):
    """The check of these tests rejects a page in which one text got through."""
    report = everything(make)
    text = page(report)
    for planted in (TEXTS["script"], "<b onclick=alert(1)>x</b>", '<a href="javascript:alert(1)">x</a>', "<!-- x -->"):
        with pytest.raises(AssertionError):
            held(text.replace("</main>", f"{planted}</main>"), Outline(text))


def test_policy_names_exactly_our_scripts(make):
    for report in (everything(make), Report()):
        text = page(report)
        outline = Outline(text)
        policy = next(value for tag, name, value in outline.attributes if name == "content" and "default-src" in value)
        hashes = [
            "'sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() + "'"
            for script in outline.scripts
        ]
        rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
        assert rules["script-src"].split() == hashes
        assert rules["default-src"] == "'none'"
        assert "unsafe-eval" not in policy
        assert text.index("Content-Security-Policy") < text.index("<style>") < text.index("<script")


def test_page_names_no_address(make):
    text = page(everything(make))
    own = text[: text.index("<script>")]
    assert not re.search(r"https?:|//[a-z]|@import|url\(", own)


# --- in Chromium -----------------------------------------------------------------------------------------------------

ALIVE = "document.documentElement.classList.contains('on')"
DRAW_ALL = """(async () => {
  for (const canvas of document.querySelectorAll('.canvas')) {
    canvas.scrollIntoView();
    for (let at = 0; at < 200 && !canvas.querySelector('.main-svg'); at++) await new Promise(r => setTimeout(r, 20));
  }
  return [...document.querySelectorAll('.canvas')].map(canvas => canvas.querySelectorAll('.main-svg').length > 0);
})()"""
STRANGE = """[...document.querySelectorAll('*')].flatMap(element =>
  [...element.attributes].filter(one => /^on/i.test(one.name) || /javascript:/i.test(one.value) && one.name === 'href')
    .map(one => element.tagName + ' ' + one.name))"""

GROWN = """(() => {
  const script = document.createElement('script');
  script.textContent = 'window.pwned = 4';
  document.body.append(script);
  return String(window.pwned);
})()"""


@pytest.mark.xdist_group("chromium")
def test_hostile_page_is_quiet_in_a_browser(make, look):
    report = linked(hostile(everything(make), ALL), TEXTS["attribute"])
    seen = look(
        page(report),
        ("js", ALIVE),
        ("js", DRAW_ALL),
        (
            "js",
            "[document.scripts.length, document.querySelectorAll('.canvas a, svg a, iframe, object, embed').length]",
        ),
        ("js", STRANGE),
        ("js", "document.querySelectorAll('details').forEach(one => one.open = true)"),
        ("press", "j"),
        ("press", "?"),
    )
    alive, drawn, (scripts, links), strange, *_ = seen.results
    assert alive
    assert drawn == [True] * 6
    assert scripts == 2 + len(drawn)
    assert links == 0
    assert strange == []
    assert seen.quiet, seen


@pytest.mark.xdist_group("chromium")
def test_hostile_labels_are_shown_as_they_are_written(make, look):
    report = hostile(everything(make), "<b>x</b>&lt;i")
    seen = look(page(report), ("js", DRAW_ALL), ("js", "document.querySelector('.ytick text').textContent"))
    assert "<b>x</b>" in seen.results[1]
    assert seen.quiet, seen


@pytest.mark.xdist_group("chromium")
def test_script_that_got_in_does_not_run_all_the_same(make, look):
    planted = (
        "<script>window.pwned = 1</script><img src=data:, onerror='window.pwned = 2'>"
        "<a id=pwn href='javascript:window.pwned=3'>x</a>"
    )
    text = page(everything(make)).replace("</main>", f"{planted}</main>")
    seen = look(
        text,
        ("js", ALIVE),
        ("js", "document.getElementById('pwn').click()"),
        ("js", "new Promise(done => setTimeout(() => done(String(window.pwned)), 100))"),
        ("js", GROWN),
    )
    assert seen.results[0] is True
    assert seen.results[2:] == ["undefined", "undefined"]
    assert any("Content Security Policy" in line for line in seen.console)
    assert not seen.quiet


def test_formulas_and_locations_of_no_known_file_are_shown(make):
    report = everything(make)
    facts = tuple(replace(fact, forward="<b>") if isinstance(fact, FunctionFormula) else fact for fact in report.facts)
    findings = tuple(
        replace(finding, location=Location("<gone>.py", 10**9, 10**9, 10**9, 10**9)) for finding in report.findings
    )
    text = page(replace(report, sources=(), facts=facts, findings=findings))
    assert "&lt;gone&gt;.py:1000000000" in text
    assert "<b></code>" not in text
