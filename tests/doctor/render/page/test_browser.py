"""The page in a real Chromium: plots, filter, keyboard, themes, narrow screens, paper, no script."""

from __future__ import annotations

import pytest
from tests.doctor.render.page.sessions import everything, many

from gradwright.doctor.render import render
from gradwright.doctor.session.model import Report

pytestmark = pytest.mark.xdist_group("chromium")

FOCUSED = "document.activeElement.id"
SHOWN = "[...document.querySelectorAll('.finding')].filter(one => !one.hidden).map(one => one.dataset.code)"
DRAWN = "document.querySelectorAll('.canvas .main-svg').length > 0"
WIDTH = "document.documentElement.scrollWidth"
BACKGROUND = "getComputedStyle(document.body).backgroundColor"
OPEN_ALL = "document.querySelectorAll('details').forEach(one => one.open = true)"


def page(report: Report) -> str:
    return render(report, "html")


def test_plots_are_drawn_when_they_come_into_sight(make, look):
    seen = look(
        page(everything(make)),
        ("js", DRAWN),
        ("js", "document.querySelector('#training .canvas').scrollIntoView()"),
        ("wait", "document.querySelector('#training .canvas .main-svg')"),
        ("js", "document.querySelectorAll('#timeline .main-svg').length"),
    )
    assert seen.results[0] is False
    assert seen.results[3] == 0
    assert seen.quiet, seen


def test_colours_of_a_plot_are_those_of_the_page(make, look):
    line = "getComputedStyle(document.querySelector('#training .js-line')).stroke"
    seen = look(
        page(everything(make)),
        ("js", "document.querySelector('#training .canvas').scrollIntoView()"),
        ("wait", "document.querySelector('#training .js-line')"),
        ("js", line),
        ("press", "t"),
        ("wait", f"{line} !== 'rgb(49, 87, 200)'"),
        ("js", line),
        ("js", BACKGROUND),
    )
    assert seen.results[2] == "rgb(49, 87, 200)"
    assert seen.results[5:] == ["rgb(148, 176, 255)", "rgb(21, 23, 27)"]
    assert seen.quiet, seen


@pytest.mark.parametrize(("scheme", "background"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(21, 23, 27)")])
def test_page_follows_the_system_and_can_be_turned(make, look, scheme, background):
    seen = look(page(make.first_sight()), ("js", BACKGROUND), ("click", "#theme"), ("js", BACKGROUND), scheme=scheme)
    assert seen.results[0] == background
    assert seen.results[2] != background


def test_findings_are_sifted_by_severity_code_and_words(make, look):
    change = "document.querySelector('.filter').dispatchEvent(new Event('input'))"
    seen = look(
        page(everything(make)),
        ("js", SHOWN),
        ("click", "input[value=error]"),
        ("js", SHOWN),
        ("js", f"document.querySelector('#code').value = 'GW404'; {change}"),
        ("js", SHOWN),
        ("js", f"document.querySelector('#code').value = ''; {change}"),
        ("press", "/"),
        ("type", "NOT needed"),
        ("js", SHOWN),
        ("js", "document.querySelector('#shown').textContent"),
        ("type", " nowhere"),
        ("js", "document.querySelector('#none').hidden"),
        ("press", "Escape"),
        ("js", FOCUSED),
    )
    results = seen.results
    assert results[0] == ["GW101", "GW301", "GW404", "GW303"]
    assert results[2] == ["GW301", "GW404", "GW303"]
    assert results[4] == ["GW404"]
    assert results[8] == ["GW303"]
    assert results[9] == "1 of 4"
    assert results[11] is False
    assert results[13] == ""
    assert seen.quiet, seen


def test_link_to_a_finding_that_is_sifted_away_shows_it(make, look):
    seen = look(
        page(everything(make)),
        ("click", "input[value=error]"),
        ("click", "nav a[href='#finding-1']"),
        ("wait", "!document.querySelector('#finding-1').hidden"),
        ("js", SHOWN),
    )
    assert len(seen.results[3]) == 4


def test_keys_go_from_finding_to_finding_and_open_what_is_folded(make, look):
    opened = "[...document.querySelectorAll('#finding-2 details')].every(one => one.open)"
    seen = look(
        page(everything(make)),
        ("press", "j"), ("js", FOCUSED),
        ("press", "j"), ("js", FOCUSED),
        ("press", "ArrowRight"), ("js", FOCUSED),
        ("press", "k"), ("js", FOCUSED),
        ("press", "o"), ("js", opened),
        ("press", "o"), ("js", opened),
        ("press", "k"), ("press", "k"), ("js", FOCUSED),
        ("press", "?"), ("js", "document.querySelector('#help').open"),
        ("press", "j"), ("press", "Escape"), ("js", "document.querySelector('#help').open"), ("js", FOCUSED),
        ("press", "Control+j"), ("js", FOCUSED),
    )  # fmt: skip
    told = [result for result in seen.results if result is not None]
    assert told == [
        *("finding-1", "finding-2", "finding-3", "finding-2"),
        *(True, False, "finding-1", True, False, "finding-1", "finding-1"),
    ]
    assert seen.quiet, seen


@pytest.mark.parametrize("way", [("press", "/"), ("click", "#search"), ("press", "?"), ("click", "#keys")])
def test_escape_gives_the_focus_back_to_where_it_was(make, look, way):
    seen = look(
        page(everything(make)),
        ("press", "j"), ("press", "j"), ("js", FOCUSED),
        way, ("js", "document.activeElement.closest('.finding') === null"),
        ("press", "Escape"), ("js", FOCUSED), ("js", "document.activeElement === document.body"),
    )  # fmt: skip
    told = [result for result in seen.results if result is not None]
    # A button that was clicked has the focus from then on.
    assert told == ["finding-2", True, "keys" if way == ("click", "#keys") else "finding-2", False]


@pytest.mark.parametrize("key", ["/", "?"])
def test_escape_from_the_start_of_the_page_leads_to_the_content(make, look, key):
    seen = look(page(everything(make)), ("press", key), ("press", "Escape"), ("wait", f"{FOCUSED} === 'content'"))
    assert seen.quiet, seen


def test_escape_from_a_search_that_sifted_the_finding_away_leads_to_the_content(make, look):
    seen = look(
        page(everything(make)),
        ("press", "j"),
        ("press", "/"),
        ("type", "NOT needed"),
        ("press", "Escape"),
        ("js", FOCUSED),
        ("press", "j"),
        ("js", "document.activeElement.dataset.code"),
    )
    assert (seen.results[4], seen.results[6]) == ("content", "GW303")


def test_first_tab_leads_past_the_contents_and_focus_is_seen(make, look):
    seen = look(
        page(make.first_sight()),
        ("press", "Tab"),
        ("js", "document.activeElement.className"),
        ("js", "document.activeElement.getBoundingClientRect().left >= 0"),
        ("js", "getComputedStyle(document.activeElement).outlineStyle"),
        ("press", "Enter"),
        ("js", FOCUSED),
    )
    assert seen.results[1:4] == ["skip", True, "solid"]
    assert seen.results[5] == "content"


@pytest.mark.parametrize("width", [360, 768])
def test_narrow_page_does_not_scroll_sideways(make, look, width):
    seen = look(page(everything(make)), ("js", OPEN_ALL), ("js", WIDTH), width=width)
    assert seen.results[1] == width


def test_long_names_do_not_widen_a_narrow_page(make, look):
    report = make.first_sight()
    names = {subject.id: "A" * 400 for subject in report.subjects}
    long = [make.subject("A" * 400), make.subject("B" * 400, line=33)]
    moved = type(report)(
        subjects=tuple(long), findings=tuple(make.finding(message="m" * 900) for _ in names), script=report.script
    )
    assert look(page(moved), ("js", WIDTH), width=360).results == [360]


def test_page_is_read_without_script(make, look):
    html = page(everything(make))
    told = look(
        html,
        ("js", "document.querySelectorAll('.finding').length"),
        ("js", "document.body.innerText"),
        ("js", "[...document.querySelectorAll('.scripted')].filter(one => one.getClientRects().length).length"),
        ("click", "#training summary"),
        ("js", "document.querySelector('#training table').getClientRects().length"),
        script=False,
    )
    findings, text, scripted, _, tables = told.results
    assert findings == 4
    assert "Scale.backward returns half the gradient of w" in text
    assert "it is in the gradient of embed.bias" in text
    assert scripted == 0
    assert tables == 1
    assert told.quiet, told


def test_paper_has_no_buttons_and_everything_unfolded(make, look):
    seen = look(
        page(everything(make)),
        ("press", "t"),
        ("press", "t"),  # dark by choice, which paper does not heed
        ("media", "print"),
        ("js", "dispatchEvent(new Event('beforeprint'))"),
        ("js", "[...document.querySelectorAll('button, .filter')].filter(one => one.getClientRects().length).length"),
        ("js", "[...document.querySelectorAll('details')].every(one => one.open)"),
        ("js", BACKGROUND),
        ("js", "[...document.querySelectorAll('.canvas')].every(one => one.querySelector('.main-svg'))"),
        scheme="dark",
    )
    assert seen.results[4:] == [0, True, "rgb(255, 255, 255)", True]


def test_copy_takes_the_whole_program(make, look):
    seen = look(
        page(everything(make)),
        ("click", ".counterexample .copy"),
        ("wait", "document.querySelector('.counterexample .copy').firstChild.textContent !== 'copy'"),
        ("js", "document.querySelector('.counterexample .copy').firstChild.textContent"),
        ("js", "document.querySelector('.counterexample code').textContent"),
    )
    assert seen.results[2] in ("copied", "selected")
    assert seen.results[3].startswith("import torch\n\nx, w = torch.ones(2, 3)")


def test_five_hundred_findings_are_searched_and_walked(make, look):
    seen = look(
        page(many(make, 500)),
        ("press", "/"),
        ("type", "number 499"),
        ("js", SHOWN),
        ("press", "Escape"),
        ("press", "j"),
        ("js", FOCUSED),
    )
    assert len(seen.results[2]) == 1
    assert seen.results[5] == "finding-500"
    assert seen.quiet, seen
