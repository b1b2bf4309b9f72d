"""What docs/questions holds of each claim follows from figures, and would be otherwise if they were."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from corpora.asked import batch, equal, is_right, masks, never_called, reductions, slow, wrt, zero_grad

ROUNDS, QUICK = 1, True


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng():
        yield


def test_a_backward_that_only_has_the_name_is_never_called(monkeypatch: pytest.MonkeyPatch) -> None:
    found = never_called.measure(ROUNDS, QUICK)
    calls = {name: row["calls of the backward in 10 steps"] for name, row in found.rows.items()}
    assert list(calls.values()) == [0, 0, 10, 10]
    (told,) = found.claims.values()
    assert told["holds"] is False

    connected = never_called.ways_of

    def by_apply(backward: Any) -> dict[str, Callable[..., Any]]:
        ways = connected(backward)
        return ways | {never_called.BY_NAME: ways["autograd.Function"]}

    monkeypatch.setattr(never_called, "ways_of", by_apply)
    (told,) = never_called.measure(ROUNDS, QUICK).claims.values()
    assert told["holds"] is True


def test_every_planted_backward_is_found_and_the_right_one_is_not() -> None:
    rows = is_right.measure(ROUNDS, QUICK).rows
    assert [name for name, row in rows.items() if row["gw.check"] == "passes"] == ["right"]
    assert [name for name, row in rows.items() if row["gradcheck"] == "fails"] == [
        "the 3 is forgotten",
        "the cotangent is left out",
    ]


def test_a_vector_or_a_third_axis_raises_and_what_runs_is_compared_with_the_loop() -> None:
    found = batch.measure(ROUNDS, QUICK)
    told = {name: row["penalty / the loop's"] for name, row in found.rows.items()}
    assert [name for name, what in told.items() if what.startswith("raises")] == [
        "samples moved last, indices dropped",
        "three axes permuted, then a column at a time",
        "a column at a time",
    ]
    assert told.pop("a column at a time, cotangents of ones, a mean") == f"{1 / 16:.6f}"
    assert all(what == "1.000000" for what in told.values() if not what.startswith("raises"))


def test_the_sum_trick_is_off_where_samples_meet_and_the_library_says_so() -> None:
    rows = wrt.measure(ROUNDS, QUICK).rows
    for name, row in rows.items():
        meet = "train()" in name or "attention" in name
        assert (float(row["sum trick: its error"]) > 0.1) is meet, name
        assert (row["ours: its error"] == "raises CoupledBatch") is meet, name
        assert float(row['ours, batch="coupled"']) < 1e-12, name


def test_the_second_mask_is_told_wrong_only_while_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    (told,) = masks.measure(ROUNDS, QUICK).claims.values()
    assert told["holds"] is False
    monkeypatch.setitem(masks.WAYS, masks.WRONG, masks.WAYS["outside = ~inside"])
    (told,) = masks.measure(ROUNDS, QUICK).claims.values()
    assert told["holds"] is True


def test_where_zero_grad_stands_decides_whether_anything_is_learnt() -> None:
    losses = {name: float(row["loss after 200 backwards"]) for name, row in zero_grad.places(1, True).rows.items()}
    assert losses["before each backward"] < 1e-6 and losses["before each window of 4, step after it"] < 1e-6
    assert losses["never"] > 0.1 and losses["between backward and step"] > 0.1


def test_accumulation_is_exact_where_sums_are_divided_by_their_count() -> None:
    rows = equal.measure(ROUNDS, QUICK).rows
    exact = ("equal pieces", "the last piece is short", "tokens, some ignored")
    for name in exact:
        assert float(rows[name]["sum / count"]) < 1e-12 and float(rows[name]["GradientAccumulator"]) < 1e-12
        assert (float(rows[name]["mean / steps"]) < 1e-12) is (name == "equal pieces")
    assert all(float(off) > 0.1 for off in rows["a BatchNorm in the model"].values())


def test_the_loop_takes_nineteen_operations_an_element() -> None:
    row = slow.loops(ROUNDS, QUICK).rows["CubeByElement"]
    counted = [int(row[f"operations, {way}"].replace(",", "")) for way in ("forward", "backward")]
    assert counted == [1 + 9 * 30 * 50, 1 + 10 * 30 * 50]


def test_a_loss_without_a_reduction_raises() -> None:
    assert reductions.raises_without_reduction()
