"""Layers by which a micro-batch is no piece of its batch are told by name, and others are not."""

import warnings

import pytest
from torch import nn

from gradwright.training.layers import batch_norms, dropouts, warn_of_coupled_layers


def test_batch_norms_in_training_are_named() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Sequential(nn.BatchNorm2d(2), nn.SyncBatchNorm(2)))
    assert batch_norms(model) == ["1", "2.0", "2.1"]
    assert batch_norms(model.eval()) == []


def test_without_running_statistics_evaluation_changes_nothing() -> None:
    assert batch_norms(nn.Sequential(nn.BatchNorm1d(2, track_running_stats=False)).eval()) == ["0"]


def test_layers_that_draw_are_named() -> None:
    model = nn.ModuleList([
        nn.Dropout(0.1), nn.Dropout2d(0.1), nn.AlphaDropout(0.1), nn.LSTM(2, 2, num_layers=2, dropout=0.1),
        nn.MultiheadAttention(2, 1, dropout=0.1),
    ])  # fmt: skip
    assert dropouts(model) == ["0", "1", "2", "3", "4"]
    assert dropouts(model.eval()) == []


def test_layers_that_draw_nothing_are_not() -> None:
    model = nn.ModuleList([nn.Dropout(0.0), nn.LSTM(2, 2), nn.MultiheadAttention(2, 1), nn.GroupNorm(1, 2)])
    assert dropouts(model) == []


def test_they_are_warned_of_with_their_names() -> None:
    with pytest.warns(UserWarning) as told:
        warn_of_coupled_layers(nn.Sequential(nn.BatchNorm1d(2), nn.Dropout(0.5)))
    assert ["batch normalisation (0)" in str(told[0].message), "dropout (1)" in str(told[1].message)] == [True, True]


def test_other_layers_are_not_warned_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_coupled_layers(nn.Sequential(nn.LayerNorm(2), nn.InstanceNorm1d(2), nn.Dropout(0.0)))
