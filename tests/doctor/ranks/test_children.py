"""What is tried in a forked child reaches no peer of its parent, whose own collectives go on as ever."""

from typing import Any

import pytest
import torch
import torch.distributed as dist
from tests.training.several_ranks import on_ranks, values

from gradwright.doctor.probe.attempts import Limits, attempt
from gradwright.doctor.probe.collectives import has_peers


def reduced(value: float) -> float:
    tensor = torch.full((3,), value)
    dist.all_reduce(tensor)
    return float(tensor[0])


def _sent() -> None:
    dist.send(torch.ones(1), 1 - dist.get_rank())


def tried() -> dict[str, Any]:
    rank = dist.get_rank()
    before = reduced(1.0 + rank)
    reducing = attempt(lambda: reduced(10.0), Limits(10.0))
    sending = attempt(_sent, Limits(10.0))
    alone = attempt(lambda: float(torch.ones(3).sum()), Limits(10.0))
    return {
        "peers": has_peers(),
        "before": before,
        "reducing": (reducing.how, reducing.why),
        "sending": (sending.how, sending.why),
        "alone": alone.value,
        "after": reduced(3.0 + rank),
    }


@pytest.mark.xdist_group("ranks")
def test_a_collective_in_a_child_fails_and_the_parents_go_on() -> None:
    for one in values(on_ranks(tried, 2, seconds=60)):
        assert one["peers"] and one["before"] == 3.0 and one["after"] == 7.0
        for what in ("reducing", "sending"):
            how, why = one[what]
            assert how == "raised" and "it talks to other processes" in why
        assert one["alone"] == 3.0


def test_a_lone_process_has_no_peers() -> None:
    assert not has_peers()
