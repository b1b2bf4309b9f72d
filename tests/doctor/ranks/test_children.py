"""What is tried in a forked child reaches no peer of its parent, whose own collectives go on as ever."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from tests.training.several_ranks import on_ranks, values
from torch.distributed import get_world_size as asked_by_name

from gradwright.doctor import process_group
from gradwright.doctor.probe.attempts import Limits, attempt
from gradwright.doctor.probe.collectives import has_peers
from gradwright.doctor.process_group import answering_as_in_the_run, note_process_group


def reduced(value: float) -> float:
    tensor = torch.full((3,), value)
    dist.all_reduce(tensor)
    return float(tensor[0])


def _sent() -> None:
    dist.send(torch.ones(1), 1 - dist.get_rank())


def _answers() -> tuple[Any, ...]:
    return dist.is_initialized(), dist.get_rank(), asked_by_name(), str(dist.get_backend())


def after_its_end() -> dict[str, Any]:
    """As a patient does: noted while the group is there, tried when it is gone."""
    note_process_group()
    group = dist.group.WORLD
    dist.barrier()
    dist.destroy_process_group()
    return {
        "asking": attempt(_answers, Limits(10.0)).value,
        "group": attempt(lambda: dist.get_rank(group), Limits(10.0)).why,
        "sending": attempt(lambda: reduced(1.0), Limits(10.0)).how,
        "before": dist.is_initialized(),
    }


def tried() -> dict[str, Any]:
    rank = dist.get_rank()
    before = reduced(1.0 + rank)
    reducing = attempt(lambda: reduced(10.0), Limits(10.0))
    sending = attempt(_sent, Limits(10.0))
    asking = attempt(lambda: (dist.get_rank(), dist.get_world_size(), dist.get_backend()), Limits(10.0))
    alone = attempt(lambda: float(torch.ones(3).sum()), Limits(10.0))
    return {
        "peers": has_peers(),
        "before": before,
        "reducing": (reducing.how, reducing.why),
        "sending": (sending.how, sending.why),
        "asking": asking.value,
        "alone": alone.value,
        "after": reduced(3.0 + rank),
    }


@pytest.mark.xdist_group("ranks")
def test_a_collective_in_a_child_fails_and_the_parents_go_on() -> None:
    for rank, one in enumerate(values(on_ranks(tried, 2))):
        assert one["peers"] and one["before"] == 3.0 and one["after"] == 7.0
        for what in ("reducing", "sending"):
            how, why = one[what]
            assert how == "raised" and "it talks to other processes" in why
        assert one["alone"] == 3.0 and one["asking"] == (rank, 2, "gloo")


@pytest.mark.xdist_group("ranks")
def test_when_the_group_is_gone_a_child_hears_what_the_run_heard() -> None:
    for rank, one in enumerate(values(on_ranks(after_its_end, 2))):
        assert one["asking"] == (True, rank, 2, "gloo") and not one["before"]
        assert "its process group is gone" in one["group"] and one["sending"] == "raised"


def test_a_lone_process_has_no_peers() -> None:
    assert not has_peers()


def test_without_a_group_in_the_run_nothing_is_answered_for_it() -> None:
    note_process_group()
    with answering_as_in_the_run():
        assert not dist.is_initialized()


def test_in_this_process_the_answers_end_with_the_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_group, "_answers", {})
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    note_process_group()
    dist.destroy_process_group()
    with pytest.raises(ZeroDivisionError), answering_as_in_the_run():
        assert _answers() == (True, 0, 1, "gloo")
        raise ZeroDivisionError
    assert not dist.is_initialized()
    with pytest.raises(ValueError, match="initialized"):
        dist.get_rank()
