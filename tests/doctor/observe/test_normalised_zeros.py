"""Rows of zeros that are normalised: told where a leaf's gradient shows it, and only there."""

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from gradwright.doctor.observe.clock import Clock
from gradwright.doctor.observe.watch import Watch
from gradwright.doctor.session.facts import NormalisedZeros
from gradwright.doctor.session.journal import Journal, fold


def facts_of(work, tmp_path: Path):
    torch.manual_seed(0)
    with Journal(tmp_path / "journal") as journal, Watch(journal, Clock(), whole_script=False):
        work()
    report = fold(tmp_path / "journal")
    assert report.not_examined == ()
    return list(report.of(NormalisedZeros))


def steps_of(rows, mask=None, steps=5):
    """Backwards through the normalised rows; ``rows()`` makes them anew for each."""
    for _ in range(steps):
        loss = (functional.normalize(rows(), dim=1) - torch.ones(4) / 2).pow(2)
        (loss if mask is None else loss * mask).mean().backward()


def zeros_that_learn():
    weight = nn.Parameter(torch.randn(6, 4))
    with torch.no_grad():
        weight[2] = 0
    steps_of(lambda: weight * 1)


def an_initialisation_with_zeros():
    layer = nn.Linear(3, 4)
    nn.init.zeros_(layer.weight), nn.init.zeros_(layer.bias)
    steps_of(lambda: layer(torch.randn(6, 3)))


def padding_whose_loss_is_masked():
    embedding = nn.Embedding(6, 4, padding_idx=0)
    steps_of(lambda: embedding(torch.arange(6)), mask=(torch.arange(6) > 0).float()[:, None])


def padding_that_is_never_trained():
    embedding = nn.Embedding(6, 4, padding_idx=0)
    steps_of(lambda: embedding(torch.arange(6)))


def a_relu_at_zero():
    layer = nn.Linear(3, 4)
    with torch.no_grad():
        layer.bias.fill_(-100.0)
    steps_of(lambda: layer(torch.randn(6, 3)).relu())


def inputs_of_zeros():
    layer = nn.Linear(4, 4)
    for _ in range(3):
        layer(functional.normalize(torch.zeros(6, 4), dim=1)).pow(2).mean().backward()


def an_evaluation():
    weight = nn.Parameter(torch.zeros(6, 4))
    with torch.no_grad():
        functional.normalize(weight, dim=1)
    functional.normalize(weight, dim=1)
    (weight - 1).pow(2).mean().backward()


def rows_that_are_not_short():
    weight = nn.Parameter(torch.randn(6, 4))
    steps_of(lambda: weight * 1)


def a_large_eps():
    weight = nn.Parameter(torch.zeros(6, 4))
    for _ in range(3):
        functional.normalize(weight, dim=1, eps=1e-2).sum().backward()


def under_a_transform():
    torch.func.grad(lambda x: functional.normalize(x, dim=0).sum())(torch.zeros(4))


@pytest.mark.parametrize("work", [zeros_that_learn, an_initialisation_with_zeros])
def test_a_gradient_of_a_row_of_zeros_is_told_at_the_call(work, tmp_path: Path) -> None:
    (fact,) = facts_of(work, tmp_path)
    line = Path(__file__).read_text().splitlines()[fact.location.line - 1]
    assert line[fact.location.column - 1 : fact.location.end_column - 1] == "functional.normalize(rows(), dim=1)"
    assert fact.largest >= 1e8 and fact.eps == 1e-12 and fact.backwards == 0
    assert (fact.zeros, fact.rows) == ((1, 6) if work is zeros_that_learn else (6, 6))


QUIET = [
    padding_whose_loss_is_masked,
    padding_that_is_never_trained,
    a_relu_at_zero,
    inputs_of_zeros,
    an_evaluation,
    rows_that_are_not_short,
    a_large_eps,
    under_a_transform,
]


@pytest.mark.parametrize("work", QUIET)
def test_where_nothing_comes_of_it_nothing_is_told(work, tmp_path: Path) -> None:
    assert facts_of(work, tmp_path) == []


def test_normalize_is_put_back_and_gave_what_it_gives(tmp_path: Path) -> None:
    before, x, results = functional.normalize, torch.randn(3, 4), []
    facts_of(lambda: results.append((functional.normalize(x), functional.normalize(x, 1, dim=0, eps=2.0))), tmp_path)
    assert functional.normalize is before
    assert torch.equal(results[0][0], before(x)) and torch.equal(results[0][1], before(x, 1, dim=0, eps=2.0))
