"""A profiler that was started and left on: at how many backwards, and by which line.

What it costs is not tried: one more profiler of ours would print where Kineto does.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from gradwright.doctor.observe.looker import Looker, Surroundings
from gradwright.doctor.observe.training.ordering.patches import Patches
from gradwright.doctor.session.facts import Fact, ProfilerOn
from gradwright.doctor.session.model import Subject
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.places import location_in, user_frame
from gradwright.ground.torch_versions.profiler import PROFILERS, START_OF_PROFILERS, keeps_events


class ProfilerLooker(Looker):
    """Cost: a question to torch at each backward."""

    looks_at = "whether a profiler was left on"
    needs = (PROFILERS,)

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self._backwards = self._under = 0
        self._site: Subject | None = None
        self._started_at: Location | None = None
        self._patches = Patches(self.on_fault)

    def install(self) -> None:
        self._patches.around(*START_OF_PROFILERS, self._starts)

    def remove(self) -> None:
        self._patches.remove()

    def _starts(self, args: Any, kwargs: Any) -> None:
        frame = user_frame(4)
        if frame is not None and self._started_at is None:
            self._started_at = location_in(frame.f_code, frame.f_lasti, frame.f_lineno)

    def before_backward(self, site: Subject, root: Tensor | None) -> None:
        self._backwards += 1
        if keeps_events():
            self._under += 1
            self._site = self._site or site

    def facts(self) -> list[Fact]:
        if self._site is None:
            return []
        return [
            ProfilerOn(
                id="profiler",
                subject=self._site.id,
                backwards=self._backwards,
                under=self._under,
                location=self._started_at,
            )
        ]
