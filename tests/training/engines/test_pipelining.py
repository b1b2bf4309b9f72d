"""What runs through a pipeline has the full batch's gradient on every stage, and its faults are told on all ranks."""

import functools
from typing import Any

import pytest
from tests.training.engines.pipelines import CASES, REPLICATED, errors, fault
from tests.training.several_ranks import on_ranks, values

pytestmark = pytest.mark.xdist_group("pipelines")  # what the ranks tell is asked once

BOUNDS = {"float64": 1e-12, "float32": 1e-5}


@functools.cache
def _told(replicated: bool) -> list[list[dict[str, Any]]]:
    cases = REPLICATED if replicated else CASES
    return values(on_ranks(errors, 4 if replicated else 2, cases))


@pytest.mark.parametrize("replicated", [False, True])
@pytest.mark.parametrize("what", ["gradient", "loss", "norm"])
def test_a_pipeline_is_the_full_batch(what: str, replicated: bool) -> None:
    for told in _told(replicated):
        assert len(told) == len(REPLICATED if replicated else CASES)
        for case in told:
            assert case[what] <= BOUNDS[case["dtype"]], case


@pytest.mark.parametrize("mutant", ["items_counted_on_every_stage", "norm_of_one_stage"])
def test_a_wrong_pipeline_is_caught(mutant: str) -> None:
    for told in values(on_ranks(errors, 2, CASES[:3] + CASES[8:9], mutant)):
        assert max(max(case["gradient"], case["norm"]) for case in told) > 1e-2


def test_forgotten_replicas_are_caught() -> None:
    for told in values(on_ranks(errors, 4, REPLICATED[:2], "replicas_forgotten")):
        assert max(case["gradient"] for case in told) > 1e-2


def test_a_schedule_that_divides_by_its_micro_batches_is_refused() -> None:
    for outcome in on_ranks(fault, 2, "scale_grads"):
        assert "UsageError: Schedule1F1B divides by its number of micro-batches" in outcome.error


def test_a_mean_is_refused() -> None:
    first, last = on_ranks(fault, 2, "mean")
    assert "UsageError: the loss is passed as a sum, and its graph says that it is a mean" in last.error
    assert "RankLost" in first.error


def test_a_short_batch_is_told() -> None:
    for rank, outcome in enumerate(on_ranks(fault, 2, "short")):
        assert f"rank {rank}, window 0: a batch of 4 samples, and the pipeline was begun with 8" in outcome.error


def test_stages_with_different_numbers_of_batches_are_told() -> None:
    for outcome in on_ranks(fault, 2, "uneven"):
        assert "window 0: the ranks hold different numbers of batches in this window" in outcome.error


def test_nan_is_told_on_every_stage() -> None:
    for rank, outcome in enumerate(on_ranks(fault, 2, "nan")):
        assert f"NonFiniteGradient: rank {rank}, window 0" in outcome.error
        assert "the loss of micro-batch 0 of rank 1" in outcome.error


@pytest.mark.parametrize("how", ["killed", "hangs"])
def test_a_stage_that_is_lost_is_named(how: str) -> None:
    _, last = on_ranks(fault, 2, how)
    assert "RankLost: rank 1, window 0: rank 0 did not answer in time while going to run micro-batch 1" in last.error


def test_the_schedule_makes_the_backwards() -> None:
    for outcome in on_ranks(fault, 2, "backward"):
        assert "UsageError: in a pipeline the schedule makes the backwards" in outcome.error
