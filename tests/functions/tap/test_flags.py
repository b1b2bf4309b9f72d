"""Flags stand for what they say: each is raised by its fault, and a healthy model has none."""

import dataclasses
import math

import pytest
import torch
from torch import nn

from gradwright.functions.tap import gradient_report
from gradwright.functions.tap.flags import WORDS, flags_for
from gradwright.functions.tap.measuring import measure, read


def words(report):
    return {row.name: [flag.word for flag in row.flags] for row in report.rows if row.flags}


def parameter(value, gradient=None):
    made = nn.Parameter(torch.as_tensor(value, dtype=torch.float32))
    if gradient is not None:
        made.grad = torch.as_tensor(gradient, dtype=torch.float32).expand(made.shape).clone()
    return made


def report_of(**parameters):
    return gradient_report(parameters.items())


def test_a_healthy_model_has_no_flag():
    torch.manual_seed(0)
    for depth in (1, 6):
        blocks = [layer for _ in range(depth) for layer in (nn.Linear(16, 16), nn.LayerNorm(16), nn.GELU())]
        model = nn.Sequential(nn.Linear(4, 16), *blocks, nn.Linear(16, 3))
        for scale in (1.0, 1e3, 1e-3):  # of the loss
            model.zero_grad()
            (scale * nn.functional.cross_entropy(model(torch.randn(64, 4)), torch.arange(64) % 3)).backward()
            report = gradient_report(model)
            assert words(report) == {} and "no flag" in str(report)


def test_at_the_optimum_of_least_squares_nothing_is_called_vanishing():
    report = report_of(w=parameter([2.0, -1.0], [0.5, 0.1]), zero=parameter([1.0], [1e-4]))
    assert words(report) == {}


def test_a_deep_sigmoid_network_vanishes_at_its_beginning():
    torch.manual_seed(0)
    model = nn.Sequential(*[layer for _ in range(20) for layer in (nn.Linear(8, 8), nn.Sigmoid())])
    model(torch.randn(4, 8)).sum().backward()
    flagged = list(words(gradient_report(model)))
    assert "0.weight" in flagged and "38.weight" not in flagged
    assert all(flag == ["vanishing"] for flag in words(gradient_report(model)).values())


@pytest.mark.parametrize(("own", "gradient", "expected"), [
    ([1.0, 1.0], [math.nan, 1.0], ["not finite"]),
    ([1.0, 1.0], [-math.inf, 1.0], ["not finite"]),
    ([math.nan, 1.0], [1.0, 1.0], ["parameter not finite"]),
    ([math.inf, 1.0], [math.nan, 0.0], ["not finite", "parameter not finite"]),
    ([1.0, 1.0], [0.0, 0.0], ["dead"]),
    ([1.0, 1.0], [0.0, -0.0], ["dead"]),
    ([0.01, 0.01], [1e4, 1e4], ["exploding"]),
    ([1.0, 1.0], [5e3, 5e3], []),  # large, but not 1e4 times as large
    ([1e-6, 1e-6], [1.0, 1.0], []),  # a small parameter, no large gradient
    ([0.0, 0.0], [1e5, 1e5], []),  # a bias at its start has no size to compare with
    ([1.0, 1.0], [1e-9, 0.0], ["vanishing"]),  # beside the other parameter, whose gradient is 1
    ([1.0, 1.0], [1e-6, 1e-6], []),
], ids=str)  # fmt: skip
def test_flags_stand_for_what_they_say(own, gradient, expected):
    report = report_of(one=parameter(own, gradient), other=parameter([1.0], [1.0]))
    assert words(report).get("one", []) == expected


def test_everything_too_small_to_change_a_parameter_vanishes():
    report = report_of(one=parameter([1.0, 1.0], 1e-11), other=parameter([2.0], 1e-11))
    assert words(report) == {"one": ["vanishing"], "other": ["vanishing"]}
    assert words(report_of(one=parameter([1.0], 1e-9), other=parameter([2.0], 1e-9))) == {}


def test_an_embedding_of_which_few_rows_were_used_does_not_vanish():
    gradient = torch.zeros(100_000, 2)
    gradient[7] = 1e-4
    assert words(report_of(embedding=parameter(torch.ones(100_000, 2), gradient), w=parameter([1.0], [100.0]))) == {}


def test_a_frozen_parameter_without_a_gradient_is_no_fault():
    assert words(report_of(w=parameter([1.0]).requires_grad_(False), v=parameter([1.0], [1.0]))) == {}


def test_the_worst_come_first():
    report = report_of(
        small=parameter([1.0], [1e-9]), smaller=parameter([1.0], [1e-10]), fine=parameter([1.0], [1.0]),
        none=parameter([1.0]), dead=parameter([1.0], [0.0]), nan=parameter([1.0], [math.nan]),
        large=parameter([1e-3], [1e3]), larger=parameter([1e-4], [1e3]),
    )  # fmt: skip
    assert [row.name for row in report.worst()] == ["nan", "larger", "large", "none", "dead", "smaller", "small"]
    assert [row.name for row in report.worst(2)] == ["nan", "larger"]
    assert set(WORDS) >= {flag.word for row in report.worst() for flag in row.flags}


@pytest.mark.parametrize(("field", "value", "word"), [
    ("zeros", 4, "dead"), ("nans", 1, "not finite"), ("infs", 1, "not finite"), ("norm", 1e9, "exploding"),
    ("norm", 1e-12, "vanishing"),
], ids=str)  # fmt: skip
def test_a_wrong_figure_would_raise_a_flag(field, value, word):
    right = read([measure(torch.tensor([1.0, 2.0, 0.5, 1.0]))])[0]
    assert flags_for(right, right, wanted=True, largest=(right.typical, "it")) == ()
    spoilt = dataclasses.replace(right, **{field: value})
    assert [flag.word for flag in flags_for(spoilt, right, wanted=True, largest=(right.typical, "it"))] == [word]
