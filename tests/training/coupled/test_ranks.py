"""A loss of the whole batch on several ranks is that of all their micro-batches: DDP and FSDP2, by gloo."""

import functools
from typing import Any

import pytest
from tests.training.coupled.on_ranks import MUTANTS, dropout_and_statistics, errors, refused
from tests.training.several_ranks import on_ranks, values

pytestmark = pytest.mark.xdist_group("coupled ranks")  # what the ranks tell is asked once

BOUNDS = {"float64": 1e-12, "float32": 1e-5}
WORLDS = {1: ("ddp", "fsdp"), 2: ("ddp", "fsdp"), 4: ("ddp", "fsdp")}


@functools.cache
def _told(world: int) -> list[list[dict[str, Any]]]:
    return values(on_ranks(errors, world, WORLDS[world], "", world != 2))


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("world", WORLDS)
def test_the_gradient_is_that_of_the_batch_of_all_ranks(world: int, dtype: str) -> None:
    for told in _told(world):
        worst = max((case for case in told if case["dtype"] == dtype), key=lambda case: case["gradient"])
        assert worst["gradient"] <= BOUNDS[dtype], worst


@pytest.mark.parametrize("world", WORLDS)
def test_the_loss_is_told_for_the_batch_of_all_ranks(world: int) -> None:
    for told in _told(world):
        for case in told:
            assert case["loss"] <= BOUNDS[case["dtype"]], case


def test_dropout_is_replayed_and_statistics_move_once_on_each_rank() -> None:
    for told in values(on_ranks(dropout_and_statistics, 2)):
        assert told["gradient"] <= 1e-12 and told["buffers"] <= 1e-15, told


def test_what_can_not_be_put_together_is_refused_on_all_ranks() -> None:
    for rank, told in enumerate(values(on_ranks(refused, 2))):
        assert f"UsageError: rank {rank}, window" in told["other classes"], told
        assert "micro-batch 0 of rank 1 gave other outputs" in told["unsteady"], told
        assert "couples the samples" in told["naive"], told


@pytest.mark.parametrize("mutant", MUTANTS)
def test_planted_faults_are_noticed(mutant: str) -> None:
    for rank, told in enumerate(values(on_ranks(errors, 2, ("ddp",), mutant))):
        if mutant != "shares_of_the_wrong_rank" or rank:
            assert max(case["gradient"] for case in told) > 1e-2
