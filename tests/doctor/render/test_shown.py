"""A report that shows itself stays the report it was."""

from __future__ import annotations

import copy
import dataclasses
import pickle

from gradwright.doctor.render import terminal
from gradwright.doctor.render.shown import ShownReport, shown
from gradwright.doctor.session.codec import from_json
from gradwright.doctor.session.model import Report


def test_shown_report_prints_the_terminal_text_without_colour(make):
    report = make.first_sight()
    assert str(shown(report)) == terminal.render(report, width=100, color=False)


def test_shown_report_has_a_fragment_for_notebooks_and_a_short_repr(make):
    report = shown(make.first_sight())
    assert report._repr_html_().startswith('<div class="gradwright">')
    assert repr(report) == "<Report: 2 findings (1 error, 1 warning), 2 verified fixes; print() shows it>"


def test_shown_report_equals_the_report_with_the_same_fields(make):
    report = make.first_sight()
    assert shown(report) == report
    assert report == shown(report)
    assert shown(report) == shown(report)
    assert hash(shown(report)) == hash(report)
    assert shown(report) != shown(dataclasses.replace(report, findings=()))
    assert shown(report) != "a report"


def test_shown_report_survives_copy_pickle_and_replace(make):
    report = shown(make.first_sight())
    for again in (copy.deepcopy(report), pickle.loads(pickle.dumps(report)), dataclasses.replace(report)):
        assert type(again) is ShownReport
        assert again == report


def test_shown_report_is_frozen_and_has_no_room_for_more(make):
    report = shown(make.first_sight())
    assert not hasattr(report, "__dict__")
    assert isinstance(report, Report)
    assert not report.ok


def test_json_goes_round_and_shows_the_same(make):
    report = shown(make.first_sight())
    again = shown(from_json(report.to_json()))
    assert again == report
    assert str(again) == str(report)
