"""Weights, aggregators, smoothing and monitors tell and do on two ranks what they do in one process."""

import functools
from typing import Any

import pytest
from tests.training.several.on_several_ranks import cases
from tests.training.several_ranks import on_ranks, values

pytestmark = pytest.mark.xdist_group("several ranks")  # what the ranks tell is asked once

ENGINES = ("ddp", "fsdp")


@functools.cache
def told() -> list[dict[str, Any]]:
    return values(on_ranks(cases, 2))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("what", ["separate", "weights", "by weights", "smoothed", "amplified"])
def test_the_updates_are_those_of_one_process(engine: str, what: str) -> None:
    assert max(one[f"{engine} {what}"] for one in told()) <= 1e-12


def test_an_aggregator_of_whole_gradients_works_on_replicas() -> None:
    assert max(one["ddp by matrix"] for one in told()) <= 1e-12


def test_and_is_refused_on_shards() -> None:
    for one in told():
        assert one["fsdp by matrix"].startswith("UsageError: function looks at whole gradients"), one["fsdp by matrix"]


def test_an_aggregator_that_draws_draws_the_same_on_all_ranks() -> None:
    first, second = (one["ddp drawing"] for one in told())
    assert first == second


@pytest.mark.parametrize("engine", ENGINES)
def test_conflicts_are_those_of_all_ranks(engine: str) -> None:
    for one in told():
        found = one[f"{engine} conflicts"]
        assert found["shared"] == found["expected"] and found["off"] <= 1e-10


@pytest.mark.parametrize("engine", ENGINES)
def test_the_first_rank_draws_the_curves_of_all(engine: str) -> None:
    first, second = (one[f"{engine} curves"] for one in told())
    assert first["same"] and first["off"] <= 1e-8, first
    assert second["written"] == 0


@pytest.mark.parametrize("way", ["ddp last", "ddp uneven", "ddp every", "ddp separate", "fsdp every", "fsdp separate"])
def test_the_noise_scale_is_made_of_the_micro_batches_that_can_be_told_apart(way: str) -> None:
    for one in told():
        assert max(one[f"{way} noise"]) <= 1e-8, one[f"{way} noise"]


def test_both_players_of_a_gan_make_the_full_batchs_step() -> None:
    assert max(one["players"] for one in told()) <= 1e-12


def test_gradients_that_are_not_seen_are_told() -> None:
    for one in told():
        assert one["fsdp last noise"].endswith("sharded gradients are not seen before they are shared: sync='every')")


def test_ranks_with_different_losses_are_refused_on_all() -> None:
    for one in told():
        assert "the ranks have different losses in this window" in one["other losses"], one["other losses"]
