"""What a model is wrapped in decides how gradients are shared; what would be wrong in silence is refused."""

import functools
from typing import Any

import pytest
from tests.training.engines.choices import alone, choices, several_backwards, sixteen_bits
from tests.training.several_ranks import on_ranks, values

pytestmark = pytest.mark.xdist_group("engines")  # what the ranks tell is asked once


@functools.cache
def _told() -> list[dict[str, Any]]:
    return values(on_ranks(choices, 2))


@pytest.mark.parametrize("model", ["ddp", "sharded", "divided by another number"])
def test_a_model_that_is_known_has_the_full_batch_gradient(model: str) -> None:
    for told in _told():
        assert told[model] <= 1e-12, told[model]


@pytest.mark.parametrize(
    ("model", "why"),
    [
        ("divided by different numbers", "the gradients of this model are divided by different numbers"),
        ("ignored", "0.bias: parameters that fully_shard left alone"),
        ("only inside", "0 (FSDPLinear) is sharded, and the model around it is not"),
        ("ddp inside", "0 (DistributedDataParallel) is DistributedDataParallel inside of the model"),
        ("first fsdp", "of FSDP, the second is supported"),
        ("first fsdp inside", "0 (FullyShardedDataParallel): of FSDP, the second is supported"),
    ],
)
def test_a_model_whose_gradients_would_be_wrong_is_refused(model: str, why: str) -> None:
    for told in _told():
        assert told[model].startswith("UsageError") and why in told[model]


def test_a_plain_model_among_ranks_is_warned_of() -> None:
    for told in values(on_ranks(alone, 2)):
        assert "2 ranks run, and the model is neither in DistributedDataParallel nor sharded" in told


@pytest.mark.parametrize("engine", ["ddp", "fsdp"])
@pytest.mark.parametrize("order", ["together", "in turn"])
def test_several_forwards_before_one_update(order: str, engine: str) -> None:
    assert max(values(on_ranks(several_backwards, 2, order, engine))) <= 1e-12


def test_backwards_apart_are_shared_where_the_model_is_sharded() -> None:
    assert max(values(on_ranks(several_backwards, 2, "apart", "fsdp"))) <= 1e-12


@pytest.mark.parametrize("order", ["apart", "beside"])
def test_a_backward_that_ddp_would_not_share_is_refused(order: str) -> None:
    """Two forwards and then two backwards (0.19 off, without a word of DDP's); a forward of ``.module``."""
    for rank, outcome in enumerate(on_ranks(several_backwards, 2, order)):
        assert f"AccumulationError: rank {rank}, window 0: DDP shares the gradients of one backward" in outcome.error


def test_sharded_bfloat16_is_summed_in_the_policys_type() -> None:
    """64 micro-batches on each of two ranks: 2.3e-3 off with reduce_dtype=float32, 6.4e-3 in bfloat16."""
    wide, narrow = (values(on_ranks(sixteen_bits, 2, wide))[0] for wide in (True, False))
    assert wide < 4e-3 < narrow
