"""The loss under examination, its kind, what the caller said of it, and what several properties look at."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from gradwright.checking.losses.loss import Loss, Sample
from gradwright.checking.losses.profile import Profile
from gradwright.checking.losses.rays import rays
from gradwright.checking.losses.recognise import Recognised
from gradwright.checking.problem import Problem
from gradwright.checking.report import Finding, Level, Place


@dataclass(frozen=True)
class Declared:
    """What the caller says holds (``True``), or does not by design (``False``); ``None``: as its kind has it."""

    nonnegative: bool | None = None
    zero_at_target: bool | None = None
    minimum_at_target: bool | None = None
    continuous: bool | None = None
    bounded_gradient: bool | float | None = None
    refuses_broadcasting: bool | None = None


@dataclass
class Case:
    """One loss. ``references``: known losses that it is compared with, by name. ``seconds_left()`` until the limit.

    ``specimens``: the calls that show a finding, and in which precision. ``explained_by``: the code of a finding that
    is the root of what is wrong with the loss's shape, "" as long as none was made.
    """

    loss: Loss
    recognised: Recognised
    declared: Declared
    references: Mapping[str, Callable[..., Any]]
    level: Level
    seed: int
    seconds_left: Callable[[], float]
    specimens: list[tuple[Finding, tuple[Sample, ...], torch.dtype]] = field(default_factory=list)
    explained_by: str = ""

    @property
    def kind(self) -> str:
        return self.recognised.kind

    @property
    def sample(self) -> Sample:
        return self.recognised.sample

    @property
    def is_regression(self) -> bool:
        return self.recognised.kind == "regression"

    @property
    def free(self) -> bool:
        """Are there further arguments, so that no absolute value can be expected?"""
        return bool(self.sample.extras)

    @cached_property
    def profiles(self) -> list[Profile]:
        """The loss along every ray of its kind."""
        found = rays(self.recognised.kind, self.sample, positive=self.recognised.positive, coarse=self.level == "quick")
        ordinary = abs(self.loss.attempt(self.sample))
        ordinary = ordinary if math.isfinite(ordinary) else 0.0
        looked = (Profile(self.loss, ray, ordinary=ordinary) for ray in found)
        return [profile for profile in looked if len(profile.points) > 2]

    @property
    def at_target(self) -> float | None:
        """The value of a perfect prediction; ``None`` if there is none (scores), or it is not finite."""
        return self._at_target if math.isfinite(self._at_target) else None

    @cached_property
    def _at_target(self) -> float:
        if self.is_regression:
            perfect = self.sample.target.to(torch.float64).reshape(self.sample.prediction.shape)
        elif self.kind == "binary probabilities":
            perfect = (self.sample.target > 0.5).to(torch.float64).reshape(self.sample.prediction.shape)
        else:
            return math.nan
        return self.loss.attempt(self.sample.at(perfect))

    @property
    def is_logarithm(self) -> bool:
        """Is it the logarithm of an error, which is -inf for a perfect prediction?"""
        return self.is_regression and self._at_target == -math.inf

    @cached_property
    def typical(self) -> float:
        """The size of an ordinary value: that of an error of about 1."""
        values = [abs(value) for profile in self.profiles for s, value, _ in profile.points if 0.5 < s < 1.5]
        return sorted(values)[len(values) // 2] if values else 1.0

    @cached_property
    def upside_down(self) -> bool:
        """Is it highest at the target, and falls from there on, whatever the direction?"""
        whole = [profile for profile in self.profiles if profile.ray.whole]
        return bool(whole) and all(profile.only_falls for profile in whole)

    @cached_property
    def periodic(self) -> bool:
        """Do its values come again and again as the error grows, as those of an angle do?"""
        if not self.is_regression:
            return False
        return any(profile.period is not None for profile in self.profiles if profile.ray.whole)

    @cached_property
    def location(self) -> Place | None:
        """Where the loss is defined."""
        inner = self.loss.inner
        place = Problem(subject=None, args=(), names=(), wanted=(), label=self.loss.label, original=inner)
        return place.location
