"""What the page says: the terminal's words, and what only a page has room for."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from tests.doctor.render.page.outline import Outline
from tests.doctor.render.page.sessions import everything, many

from gradwright.doctor.render import render
from gradwright.doctor.render.page.verdicts import strip
from gradwright.doctor.render.view import view
from gradwright.doctor.render.wording import number
from gradwright.doctor.session.facts import DeadUnits, LossValues, RanksDiffer, Timeline
from gradwright.doctor.session.model import (
    CUSTOM_FUNCTIONS,
    DOCTOR_FAILED,
    GRADIENT_CALLS,
    MISSING,
    NotExamined,
    Report,
    Script,
)


def page(report: Report) -> str:
    return render(report, "html")


def words(report: Report) -> str:
    return " ".join(Outline(page(report)).text.split())


def test_page_says_what_the_terminal_says(make):
    text = words(make.first_sight())
    for said in (
        "2 custom Functions · 40 steps watched · the script ran 25.1 s and exited 0",
        "The gradient of Scale is wrong",
        "WRONG in w: half of what it is",
        "right (8 checks, 4 inputs)",
        "train.py:42:27",
        "Scale.backward returns half the gradient of w",
        "grad_x[row, col] = grad_output[row, col] * 2 * x[row, col]once per element",
        "- 3 lines + grad_x = grad_output * 2 * x",
        "verified on 4 inputs, worst difference 0: 14.1 s -> 9 ms",
        "gradwright fix train.py",
        "gradwright explain GW301",
        "second order of Scale",
        "gradwright diagnose train.py",
    ):
        assert said in text, said


@pytest.mark.parametrize(
    ("not_examined", "steps", "tone"),
    [
        ((), 40, "good"),
        ((NotExamined("second order of Scale", "time limit"),), 40, "good"),
        ((NotExamined(CUSTOM_FUNCTIONS, "can't be watched with torch 9"),), 40, "doubt"),
        ((NotExamined(GRADIENT_CALLS, "can't be watched with torch 9"),), 0, "doubt"),
        ((NotExamined(MISSING, DOCTOR_FAILED),), 40, "doubt"),
        ((NotExamined(MISSING, "interrupted"),), 0, "doubt"),
    ],
)
def test_only_a_clean_bill_is_green(not_examined, steps, tone):
    report = Report(script=Script(argv=("train.py",), exit_code=0, steps=steps), not_examined=not_examined)
    assert strip(report, view(report)).tone == tone
    assert (report.no_clean_bill == "") is (tone == "good")


def test_marks_are_the_columns_of_the_finding(make):
    assert "".join(Outline(page(make.first_sight())).marked) == "grad_x[row, col]0.5 * x.t() @ g"


@pytest.mark.parametrize(
    "said",
    [
        "1 of 2 gradients right",
        "torch 2.13.0",
        "what differs between ranks what rank 0 rank 1 steps watched 40 12",
        "it died before it wrote one",
        "certificate each element stands alone",
        "equal as formulas at [3], [2, 2]",
        "7 of 8 rejected by the same trials",
        "14.1 s →to 9 ms 1,567 times less",
        "16 MB →to 480 kB 33 times less",
        "plain autograd was tried and is no fix: differs at float32[2]",
        "can't be rewritten: too odd",
        "not verified: a suggestion, to be read before it is used",
        "unsafe: at 0",
        "out = 2 * y",
        "gradient of w 2 * x.t() @ grad_output",
        "call 3 x float32 (32, 6) (6, 1) cpu yes 840 B",
        "w float32[32, 6], float32[6, 3] WRONG: half of what it is 0.5 1e-05 0.5 0.4999 0.5 0",
        "second order (w) the backward is once_differentiable",
        "x, w = torch.ones(2, 3), torch.ones(3, 2)",
        "forward 40 calls, 120 us, 3 us each",
        "memory 14 GB/s",
        "this machine at best 34 us: a call takes 10,500 times as long",
        "11 % 18 for col in range(x.shape[1]): 40 ms 300,000 2.4 MB",
        "-inf begins in sqrt (SqrtBackward0), backward, at train.py:19:13",
        "square = 0 went in at entry [7]",
        "gradient -0.03125 arrived from above at entry [7]",
        "sqrt (SqrtBackward0) gives -inf at entry [7] of shape (32,)",
        "it is in the gradient of embed.bias",
        "nan from step 840 on",
        "norm of each layer's gradient by that of its weight, the loss above (made at train.py:10)",
        "4, before relu 96 of 128",
        "graphs of earlier steps that are still alive, held by total_loss",
        "MySquare, forward",
        "time in no line of these 8 ms",
        "counted on float32[32, 6], smaller than in the run",
        "3 later spans were not kept",
        "loop 29 of data.py",
        "gradwright diagnose train.py --size '2 00'",
        "GW301 train.py:18:13 quiet please",
        "Traceback ...",
    ],
)
def test_page_has_a_place_for_every_fact(make, said):
    assert said in words(everything(make))


def test_links_lead_somewhere_and_ids_are_unique(make):
    outline = Outline(page(everything(make)))
    links = [value for tag, name, value in outline.attributes if (tag, name) == ("a", "href")]
    assert all(link.startswith("#") and link[1:] in outline.ids for link in links)
    assert len(set(outline.ids)) == len(outline.ids)


def test_labels_name_what_there_is(make):
    outline = Outline(page(everything(make)))
    named = [value for _, name, value in outline.attributes if name in ("aria-labelledby", "for")]
    assert named
    assert set(named) <= set(outline.ids)


def test_plots_are_json_and_have_a_table_each(make):
    outline = Outline(page(everything(make)))
    figures = [json.loads(text) for text in outline.data]
    assert len(figures) == outline.tags.count("figure") == 6
    assert [trace["type"] for figure in figures for trace in figure["data"]].count("heatmap") == 1
    text = page(everything(make))
    assert all("<table" in figure for figure in text.split("<figure")[1:])


def test_plotly_comes_only_where_there_is_something_to_plot(make):
    clean = replace(make.first_sight(), facts=())
    assert len(page(clean)) < 60_000
    assert "plotly.js" not in page(clean)
    assert "plotly.js" in page(everything(make))


def test_empty_session_is_a_page():
    outline = Outline(page(Report()))
    assert "Nothing wrong was found" in outline.text
    assert "article" not in outline.tags


def test_all_that_was_not_examined_is_listed_by_reason(make):
    report = Report(not_examined=tuple(NotExamined(f"thing {at}.", f"reason {at % 2}") for at in range(100)))
    text = words(report)
    assert all(f"thing {at}." in text for at in range(100))
    assert text.count("reason 0") == text.count("reason 1") == 1


def test_five_hundred_findings_fit_into_eight_megabytes(make):
    text = page(many(make, 500))
    assert text.count('class="finding ') == 500
    assert len(text.encode()) < 8_000_000


def test_whole_diffs_have_a_bound_and_the_page_says_so(make):
    report = everything(make)
    fixed = report.findings[1]
    assert fixed.fix is not None
    long = fixed.fix.diff + "+x = 1\n" * 120_000
    findings = tuple(replace(fixed, fix=replace(fixed.fix, diff=long)) for _ in range(3))
    text = page(replace(report, findings=findings))
    assert text.count("the diff is too long for this page") == 2
    assert text.count("<ins>+x = 1</ins>") == 120_000


def test_session_of_a_merged_run_names_ranks_alone(make):
    text = words(replace(everything(make), facts=()))
    assert "Ranks" not in text


def test_same_session_same_page(make):
    assert page(everything(make)) == page(everything(make))


def test_phase_measured_on_something_smaller_has_no_distance(make):
    text = words(everything(make))
    assert text.count("this machine at best") == 1  # that of MySquare.backward, not that of what was shrunk


def test_many_ranks_are_told_in_words(make):
    values = tuple((rank, str(rank // 32)) for rank in range(64))
    facts = (RanksDiffer(id="d", subject="script", what="exit code", values=values),)
    text = words(Report(facts=facts))
    assert "exit code: 0 on ranks 0, 1, 2, 3 and 28 others" in text
    assert "rank 63" not in text


@pytest.mark.parametrize("error", [math.nan, math.inf, 0.0, 1e-300, 1e300])
def test_odd_errors_are_told_and_drawn_at_the_edge(make, error):
    verdict = replace(make.verdict(verdict="wrong"), error=error, cotangents=(("ones", error), ("two", 1e-3)))
    outline = Outline(page(Report(subjects=(make.subject(),), facts=(verdict,))))
    drawn = json.loads(outline.data[0])["data"][0]["x"]
    assert all(1e-18 <= x <= 1e3 for x in drawn)
    assert f" {number(error)} " in " ".join(outline.text.split())


def test_loss_whose_every_value_is_broken_is_drawn(make):
    fact = LossValues(
        id="l", subject="s", calls=3, first=math.nan, last=math.nan, lowest=math.nan, history=(math.nan, math.inf)
    )
    outline = Outline(page(Report(facts=(fact,))))
    traces = json.loads(outline.data[0])["data"]
    assert [trace["name"] for trace in traces] == ["loss", "not finite"]
    assert traces[1]["x"] == [0, 1]


def test_time_of_a_backward_is_not_counted_in_its_gradient_call_too(make):
    spans = Timeline(
        id="timeline", subject="script", whom=("subject MySquare", "subject call", "subject MySquare"),
        spans=("backward", "gradient call", "forward"), starts=(2.0, 1.0, 0.0), seconds=(3.0, 8.0, 0.5),
        threads=(1, 0, 0), steps=(0, 0, 0),
    )  # fmt: skip
    other = replace(spans, id="rank 3: timeline", seconds=(1.0, 8.0, 0.5))
    outline = Outline(page(Report(subjects=(make.subject(),), facts=(spans, other))))
    drawn = [{trace["name"]: trace["y"] for trace in json.loads(data)["data"]} for data in outline.data]
    assert drawn == [
        {"MySquare, forward": [0.5], "subject call, gradient call": [5.0], "MySquare, backward": [3.0]},
        {"MySquare, forward": [0.5], "subject call, gradient call": [7.0], "MySquare, backward": [1.0]},
    ]
    assert "rank 3: time of each step" in outline.text


def test_units_of_an_earlier_look_are_not_told_twice(make):
    report = everything(make)
    early = next(report.of(DeadUnits))
    last = replace(early, id="last", layer="late")
    found = make.finding(code="GW632", evidence=("last",))
    text = words(replace(report, facts=(early, last), findings=(found,)))
    assert "late, before relu" in text
    assert "4, before relu" not in text
