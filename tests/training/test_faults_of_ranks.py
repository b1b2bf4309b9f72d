"""What happens to one rank reaches all: no hang, an error that names rank and window, no step made in silence."""

import functools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from tests.training import fault_cases as faults
from tests.training.several_ranks import Outcome, on_ranks, values

pytestmark = pytest.mark.xdist_group("faults of ranks")  # what the ranks tell is asked once

STOPPED = {
    (engine, how): (faults.stopped, engine, how) for engine in ("ddp", "fsdp") for how in ("killed", "hangs", "raises")
}
WAITING: dict[Any, Any] = {
    "going to the backward of micro-batch 0": (faults.stopped_where, {"sync": "every"}),
    "adding the losses up": (faults.stopped_where, {"accumulate_dtype": torch.float64}),
}
OF_FOUR: dict[Any, Any] = {"killed": (faults.stopped, "ddp", "killed"), "in a group": (faults.stopped_in_a_group,)}


@functools.cache
def _lost() -> dict[Any, list[Outcome]]:
    """Five at a time: they do nothing but wait."""
    cases = STOPPED | WAITING | OF_FOUR
    with ThreadPoolExecutor(5) as pool:
        ran = pool.map(lambda name: on_ranks(cases[name][0], 4 if name in OF_FOUR else 2, *cases[name][1:]), cases)
        return dict(zip(cases, ran, strict=True))


@pytest.mark.parametrize(("engine", "how"), STOPPED)
def test_a_rank_that_is_lost_is_named(engine: str, how: str) -> None:
    first, lost = _lost()[engine, how]
    assert "RankLost: rank 0, window 1: rank 1 did not answer in time while going to the backward" in first.error
    assert "No step was made of this window" in first.error and "last checkpoint" in first.error
    assert lost.error
    if how == "killed":
        assert lost.exit_code == -9


@pytest.mark.parametrize("doing", WAITING)
def test_a_rank_that_hangs_is_named_whatever_shares(doing: str) -> None:
    assert f"RankLost: rank 0, window 1: rank 1 did not answer in time while {doing}" in _lost()[doing][0].error


def test_of_four_ranks_the_lost_one_is_named() -> None:
    outcomes = _lost()["killed"]
    assert all("window 1: rank 1 did not answer" in outcomes[rank].error for rank in (0, 2, 3))


def test_a_slow_rank_is_waited_for() -> None:
    assert values(on_ranks(faults.slow, 2, "ddp")) == [2, 2]


def test_a_lost_rank_of_a_group_is_named_as_all_ranks_call_it() -> None:
    first, peer, beside, _ = _lost()["in a group"]
    assert "RankLost: rank 1, window 1: rank 3 did not answer" in peer.error
    assert first.value == beside.value == 2  # another group: it loses nobody


def test_a_loader_that_ends_early_ends_all() -> None:
    for rank, outcome in enumerate(on_ranks(faults.loader_that, 2, "ends")):
        assert f"AccumulationError: rank {rank}, window 1: the loader of rank 1 has ended" in outcome.error


def test_a_loader_that_raises_ends_all() -> None:
    first, second = on_ranks(faults.loader_that, 2, "raises")
    assert "AccumulationError: rank 0, window 1: the loader of rank 1 raised an exception" in first.error
    assert second.error == "OSError: the disk is gone"


@pytest.mark.parametrize("engine", ["ddp", "fsdp"])
def test_uneven_loaders_are_told(engine: str) -> None:
    for rank, outcome in enumerate(on_ranks(faults.uneven, 2, engine)):
        assert f"rank {rank}, window 1: the loader of rank 0 has ended" in outcome.error


@pytest.mark.parametrize("engine", ["ddp", "fsdp"])
def test_nan_names_rank_and_micro_batch(engine: str) -> None:
    for rank, outcome in enumerate(on_ranks(faults.not_a_number, 2, engine, "error", "loss")):
        assert f"NonFiniteGradient: rank {rank}, window 0" in outcome.error
        assert "the loss of micro-batch 1 of rank 1 is NaN or infinite. No step was made" in outcome.error


@pytest.mark.parametrize("engine", ["ddp", "fsdp"])
@pytest.mark.parametrize("place", ["loss", "backward"])
def test_nan_is_skipped_on_all_ranks_together(engine: str, place: str) -> None:
    told = values(on_ranks(faults.not_a_number, 2, engine, "skip", place))
    for why_not, moved, _ in told:
        assert [bool(why) for why in why_not] == [True, False] and moved
    assert told[0][2] == told[1][2]  # the same parameters on both
    where = "micro-batch 1 of rank 1" if place == "loss" else "begins in a backward"
    assert where in told[0][0][0]


@pytest.mark.parametrize("engine", ["ddp", "fsdp"])
def test_a_gradient_scaler_that_meets_inf_skips_on_all_ranks_together(engine: str) -> None:
    told = values(on_ranks(faults.scaled_to_infinity, 2, engine))
    assert told[0] == told[1] and told[0][:2] == ([False, True], 2.0)


@pytest.mark.parametrize("engine", ["ddp", "fsdp"])
def test_a_window_without_items_is_left_out_on_all_ranks_together(engine: str) -> None:
    assert values(on_ranks(faults.nothing_anywhere, 2, engine)) == [(2, 1), (2, 1)]


def test_parameters_that_the_last_micro_batch_leaves_out_are_refused_without_find_unused_parameters() -> None:
    for rank, outcome in enumerate(on_ranks(faults.some_parameters, 2, False, 0)):
        assert f"rank {rank}, window 0: second.weight, second.bias had no gradient in the last" in outcome.error
        assert "find_unused_parameters=True" in outcome.error


def test_parameters_that_one_rank_leaves_out_are_refused_without_find_unused_parameters() -> None:
    first, second = on_ranks(faults.some_parameters, 2, False, 2)
    assert "second.weight, second.bias had no gradient" in first.error and second.error


@pytest.mark.parametrize(
    ("find_unused", "used_in", "accumulate"),
    [(False, 1, None), (True, 0, None), (True, 1, None), (True, 2, None), (False, 0, "float64"), (False, 2, "float64")],
)
def test_parameters_of_some_micro_batches_have_the_full_batch_gradient(
    find_unused: bool, used_in: int, accumulate: str | None
) -> None:
    for error in values(on_ranks(faults.some_parameters, 2, find_unused, used_in, accumulate)):
        assert error <= 1e-12


def test_a_swallowed_exception_is_no_wrong_step() -> None:
    first, second = on_ranks(faults.left_the_loop, 2)
    assert "rank 1, window 0: step() was not called" in second.error and "RankLost" in first.error


def test_an_optimizer_with_a_closure_makes_the_full_batch_steps() -> None:
    assert max(values(on_ranks(faults.lbfgs, 2, "ddp"))) <= 1e-12


def test_a_mean_of_no_items_is_left_out() -> None:
    assert max(values(on_ranks(faults.mean_of_nothing, 2, "ddp"))) <= 1e-12


def test_a_mean_of_no_items_is_refused_where_forwards_meet() -> None:
    first, second = on_ranks(faults.mean_of_nothing, 2, "fsdp")
    assert "Make the loss with reduction='sum'" in second.error and "RankLost: rank 0" in first.error


def test_ranks_with_different_losses_are_refused() -> None:
    for rank, outcome in enumerate(on_ranks(faults.losses_of_some_ranks, 2)):
        assert f"AccumulationError: rank {rank}, window 0: the ranks have different losses" in outcome.error
