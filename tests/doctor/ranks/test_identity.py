"""Who a process is among the ranks: what torchrun, mpirun and SLURM put into the environment."""

import pytest

from gradwright.doctor.ranks.identity import this_rank

TORCHRUN = {
    "RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "1",
    "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "job", "TORCHELASTIC_RESTART_COUNT": "0",
}  # fmt: skip


def test_torchrun_on_two_machines() -> None:
    rank = this_rank(TORCHRUN)
    assert (rank.rank, rank.world_size, list(rank.here), rank.node) == (3, 4, [2, 3], 1)
    assert not rank.leads and not rank.alone_on_one_machine
    assert this_rank({**TORCHRUN, "RANK": "2", "LOCAL_RANK": "0"}).leads


def test_rank_and_size_alone_mean_one_machine() -> None:
    rank = this_rank({"RANK": "0", "WORLD_SIZE": "3", "MASTER_PORT": "29500"})
    assert list(rank.here) == [0, 1, 2] and rank.leads and rank.alone_on_one_machine


def test_a_local_rank_that_is_not_the_rank_means_other_machines() -> None:
    rank = this_rank({"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "MASTER_PORT": "29500"})
    assert not rank.alone_on_one_machine and 5 in rank.here


@pytest.mark.parametrize(
    "less",
    [
        {"RANK": ""}, {"WORLD_SIZE": "1"}, {"WORLD_SIZE": "two"}, {"RANK": "-1"}, {"RANK": "4"}, {"MASTER_PORT": ""},
        {"RANK": "٣"},
    ],
)  # fmt: skip
def test_what_is_no_rank_of_several_is_a_lone_process(less: dict[str, str]) -> None:
    assert this_rank({**TORCHRUN, **less}) is None


@pytest.mark.parametrize("name", ["TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_PORT", "GROUP_RANK"])
def test_another_run_attempt_or_machine_is_another_meeting(name: str) -> None:
    assert this_rank(TORCHRUN).run == this_rank({**TORCHRUN, "RANK": "2", "LOCAL_RANK": "0"}).run
    assert this_rank(TORCHRUN).run != this_rank({**TORCHRUN, name: "7"}).run
