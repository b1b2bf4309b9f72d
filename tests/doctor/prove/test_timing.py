"""What else the machine does adds to the rounds that it meets: the fastest ones are compared."""

from itertools import cycle

import pytest
import torch

from gradwright.doctor.prove import clock as prove_clock
from gradwright.doctor.prove.clock import Seconds, Setting
from gradwright.doctor.prove.timing import compare_speed
from gradwright.doctor.prove.trial import Subject
from gradwright.ground import clock


def original(x: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"y": torch.sigmoid(x) + torch.sigmoid(x)}


def candidate(x: torch.Tensor) -> dict[str, torch.Tensor]:
    y = torch.sigmoid(x)
    return {"y": y + y}


@pytest.mark.parametrize(("alone", "gains"), [(400e-6, True), (600e-6, False)])
def test_the_fastest_rounds_tell_whether_it_is_faster(
    alone: float, gains: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most rounds of either met somebody else's work, the candidate's more of it."""
    met = {original: cycle([600e-6, 700e-6, 900e-6]), candidate: cycle([900e-6, 1100e-6, 1100e-6, alone])}

    def time_call(setting: Setting, subject: Subject, args: object) -> Seconds:
        return Seconds(next(met[subject]), 0.0)

    monkeypatch.setattr(prove_clock, "once", time_call)
    setting = Setting(original, candidate, lambda _: ["x"], frozenset(), phase="forward", counted=False)
    timing = compare_speed(setting, (torch.ones(9),), seconds=None, deadline=clock.now() + 60.0, needed=1.1)
    assert timing is not None
    assert (timing.no_gain() == "") is gains
    assert (timing.before, timing.after) == (600e-6, alone)
