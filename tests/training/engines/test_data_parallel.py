"""Every rank's micro-batches together are one batch: DDP, FSDP2 and HSDP on 1, 2 and 4 ranks, by gloo."""

import functools
from typing import Any

import pytest
from tests.training.engines.data_parallel import errors, reductions
from tests.training.several_ranks import on_ranks, values

pytestmark = pytest.mark.xdist_group("data parallel")  # what the ranks tell is asked once

BOUNDS = {"float64": 1e-12, "float32": 1e-5}
WORLDS = {1: ("ddp", "fsdp"), 2: ("ddp", "ddp-unused", "fsdp"), 4: ("ddp", "fsdp", "hsdp")}
MUTANTS = [
    "missing_world_factor",
    "denominators_of_the_local_rank",
    "mean_of_means",
    "never_shared",
    "clipped_by_each_rank",
]


@functools.cache
def _told(world: int) -> list[list[dict[str, Any]]]:
    return values(on_ranks(errors, world, WORLDS[world], "", None if world == 2 else 36))


def _worst(told: list[dict[str, Any]], dtype: str) -> dict[str, Any]:
    return max((case for case in told if case["dtype"] == dtype), key=lambda case: case["gradient"])


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("world", WORLDS)
def test_the_gradient_is_that_of_the_full_batch(world: int, dtype: str) -> None:
    for told in _told(world):
        worst = _worst(told, dtype)
        assert worst["gradient"] <= BOUNDS[dtype], worst


@pytest.mark.parametrize("world", WORLDS)
def test_loss_and_norm_are_told_for_the_full_batch(world: int) -> None:
    for told in _told(world):
        for case in told:
            assert max(case["loss"], case["norm"]) <= 2 * BOUNDS[case["dtype"]], case


@pytest.mark.parametrize("world", WORLDS)
def test_the_table_has_every_way(world: int) -> None:
    told = _told(world)[0]
    assert {case["engine"] for case in told} == set(WORLDS[world])
    assert len(told) >= 24 and {case["reduction"] for case in told} == {"sum", "mean"}
    assert {case["how"] for case in told} == {"count", "items", "samples"}
    assert {case["empty"] for case in told} == {"", "micro", "rank"} and {case["sync"] for case in told} == {
        "last",
        "every",
    }


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_wrong_accumulator_is_caught(mutant: str) -> None:
    told = values(on_ranks(errors, 2, ("ddp", "fsdp"), mutant, 16))
    assert all(_worst(one, "float64")["gradient"] > 1e-2 for one in told)


def test_gradients_are_shared_once_a_window() -> None:
    assert values(on_ranks(reductions, 2, "last")) == [1, 1]
    assert values(on_ranks(reductions, 2, "every")) == [3, 3]
    assert values(on_ranks(reductions, 2, "last", "forward_outside_of_no_sync")) == [3, 3]  # and that would be seen
