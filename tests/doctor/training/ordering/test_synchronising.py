"""Forwards of DistributedDataParallel that synchronise more often than a step needs."""

from collections.abc import Callable

import pytest
from tests.doctor.training.ordering.step_scripts import DDP

from gradwright.doctor.rules import judge
from gradwright.doctor.session.facts import Fact, SynchronisedForwards
from gradwright.doctor.session.model import Subject
from gradwright.doctor.session.place import Location

AT = Location("train.py", 3)
SGD = Subject("optimizer:SGD", "optimizer", "SGD", AT)
FORWARDS = {"location": AT, "micro_batches": 4, "accumulated_windows": 5, "synchronised_windows": 5}

# The head, the code, the line of the finding, a part of what it says, and the script.
TOLD = {
    "every forward synchronised": (DDP, "GW607", "return F.mse_loss(model(part[0]), part[1])", "16 of 16 forwards", """
        for epoch in range(2):
            for i, part in enumerate(rows):
                (loss_of(part) / 4).backward()
                if (i + 1) % 4 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
        dist.destroy_process_group()
        """),
}  # fmt: skip

CLEAN = {
    "accumulation with the last one apart": (DDP, """
        for epoch in range(3):
            optimizer.zero_grad()
            with model.no_sync():
                for part in rows[:-1]:
                    (loss_of(part) / len(rows)).backward()
            (loss_of(rows[-1]) / len(rows)).backward()
            optimizer.step()
        dist.destroy_process_group()
        """),
    "a model called twice for one backward": (DDP, """
        for part, other in zip(rows, rows[1:]):
            optimizer.zero_grad()
            (loss_of(part) + loss_of(other)).backward()
            optimizer.step()
        dist.destroy_process_group()
        """),
}  # fmt: skip


@pytest.mark.parametrize("what", TOLD)
def test_it_is_told_once_at_its_line(what: str, told_once: Callable) -> None:
    told_once(*TOLD[what])


@pytest.mark.parametrize("what", CLEAN)
def test_it_is_right_and_nothing_is_said(what: str, nothing_said: Callable) -> None:
    nothing_said(*CLEAN[what])


@pytest.mark.parametrize(("processes", "severity"), [(1, "info"), (8, "warning")])
def test_synchronising_too_often_costs_where_there_are_several_processes(processes: int, severity: str) -> None:
    seen: Fact = SynchronisedForwards(
        id="f", subject=SGD.id, world_size=processes, forwards=20, synchronised_forwards=20, **FORWARDS
    )
    assert [(found.code, found.severity) for found in judge([SGD], [seen])] == [("GW607", severity)]
