"""A loss beside another: on which stretch of each ray they agree, in value and slope, up to a factor."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gradwright.checking.losses.case import Case
from gradwright.checking.losses.loss import Loss, Sample
from gradwright.checking.losses.profile import Point, Profile
from gradwright.checking.losses.shape import in_words, polynomial, told

_FACTORS = (1.0, 0.5, 2.0)


@dataclass(frozen=True)
class Stretch:
    """On one ray: equal from ``start`` to ``end``, and ``beyond`` says what the loss is after that ("" if unknown)."""

    profile: Profile
    start: float
    end: float
    whole: bool
    beyond: str


@dataclass(frozen=True)
class Comparison:
    """``factor``: what the reference is multiplied by to be equal. ``extent``: up to where it agrees at most."""

    stretches: tuple[Stretch, ...]
    factor: float
    example: str
    samples: tuple[Sample, ...]

    @property
    def throughout(self) -> bool:
        """Are they equal everywhere, up to the factor?"""
        return all(stretch.whole for stretch in self.stretches)

    @property
    def same(self) -> bool:
        return self.factor == 1.0 and self.throughout

    @property
    def agrees(self) -> bool:
        return any(stretch.end > stretch.start for stretch in self.stretches)

    @property
    def extent(self) -> float:
        return max((stretch.end - stretch.start for stretch in self.stretches), default=0.0)

    @property
    def from_zero(self) -> bool:
        """Do they agree where there is hardly an error?"""
        return any(stretch.end > stretch.start and stretch.start < 1e-2 for stretch in self.stretches)

    @property
    def region(self) -> str:
        """Where they part."""
        apart = [stretch for stretch in self.stretches if not stretch.whole]
        if not self.agrees or not apart:
            return "everywhere" if apart else ""
        first = apart[0]
        alike = [s for s in apart if abs(s.end - first.end) + abs(s.start - first.start) < 1e-5 * (1 + abs(first.end))]
        if {1, -1} <= {stretch.profile.ray.side for stretch in alike}:
            return f"|e| > {first.end:.4g}" if first.start <= 0 else f"|e| < {first.start:.4g}"
        return " and ".join(dict.fromkeys(map(_beyond, apart)))

    def in_words(self, name: str) -> str:
        """As "equals huber for |e| <= 1 and parts from it for |e| > 1: there it is |e|"."""
        times = "" if self.factor == 1.0 else f"{self.factor:.4g} times "
        if not self.agrees:
            return "nowhere are they equal"
        if self.throughout:
            return f"it is {times}{name} throughout"
        beyond = next((stretch.beyond for stretch in self.stretches if not stretch.whole and stretch.beyond), "")
        there = f": there it is {beyond}" if beyond else ""
        inside = self.region.replace("> ", "<= ") if self.region.startswith("|e| >") else ""
        equal = f"for {inside} and parts from it for {self.region}" if inside else f"but for {self.region}"
        return f"equals {times}{name} {equal}{there}"


def _beyond(stretch: Stretch) -> str:
    """Where on one ray the two are not equal."""
    ray = stretch.profile.ray
    if not ray.side:
        return f"beyond {ray.tell(stretch.end)}"
    further, nearer = (">", "<") if ray.side > 0 else ("<", ">")
    if stretch.end <= stretch.start or stretch.start <= 0:
        return f"e {further} {ray.side * stretch.end + 0.0:.4g}"
    return f"e {nearer} {ray.side * stretch.start:.4g}"


def compare(case: Case, other: Loss) -> Comparison | None:
    """``None`` where the other loss can't be called as this one is, or there is nothing to compare on."""
    profiles = [
        profile for profile in case.profiles if profile.ray.whole and (profile.ray.side or not case.is_regression)
    ]
    if not profiles:
        return None
    bare = case.sample.at(case.sample.prediction)
    if not other.accepts(Sample(bare.prediction, bare.target)):
        return None
    theirs = [_beside(other, profile) for profile in profiles]
    factors = [*_FACTORS, *([_ratio(profiles[0], theirs[0])] if theirs[0] else [])]
    found = [
        tuple(_stretch(profile, other, points, factor) for profile, points in zip(profiles, theirs, strict=True))
        for factor in factors
        if factor and math.isfinite(factor)
    ]
    best = max(range(len(found)), key=lambda number: (sum(s.end - s.start for s in found[number]), -number))
    example, samples = _example(profiles, theirs, factors[best], found[best])
    return Comparison(found[best], factors[best], example, samples)


def _beside(other: Loss, profile: Profile) -> list[Point]:
    """The other's value and slope at the points of the profile."""
    twin = Profile.__new__(Profile)
    twin.loss, twin.ray, twin.double, twin.smooth = other, profile.ray, profile.double, True
    return [(s, *twin.look(s)) for s, _, _ in profile.points]


def _ratio(profile: Profile, points: list[Point]) -> float:
    """The factor between the two at a small error."""
    pairs = [(mine[1], theirs[1]) for mine, theirs in zip(profile.points, points, strict=True) if theirs[1]]
    return pairs[len(pairs) // 4][0] / pairs[len(pairs) // 4][1] if pairs else math.nan


def _equal(profile: Profile, mine: Point, theirs: Point, factor: float) -> bool:
    close = 1e-6 if profile.double else 1e-3
    size = max(abs(mine[1]), abs(factor * theirs[1]), 1e-6 * profile.ordinary, 1e-300)
    values = abs(mine[1] - factor * theirs[1]) <= close * size
    if not values or not all(map(math.isfinite, (mine[2], theirs[2]))) or mine[0] == 0.0:
        return values
    slopes = max(abs(mine[2]), abs(factor * theirs[2]), 1e-6 * profile.ordinary, 1e-300)
    return abs(mine[2] - factor * theirs[2]) <= 10 * close * slopes


def _stretch(profile: Profile, other: Loss, points: list[Point], factor: float) -> Stretch:
    """The longest stretch on which they are equal; its ends are located by halving."""
    equal = [_equal(profile, mine, theirs, factor) for mine, theirs in zip(profile.points, points, strict=True)]
    places = [s for s, _, _ in profile.points]
    start = end = -1
    first = None
    for number, same in enumerate([*equal, False]):
        if same and first is None:
            first = number
        elif not same and first is not None:
            if number - 1 - first > end - start or start < 0:
                start, end = first, number - 1
            first = None
    if start < 0 or end - start < 2:
        return Stretch(profile, places[0], places[0], False, "")
    a, b = places[start], places[end]
    if end + 1 < len(places):
        b = _edge(profile, other, factor, b, places[end + 1])
    if start > 0:
        a = _edge(profile, other, factor, a, places[start - 1])
    beyond = polynomial([(s, value) for s, value, _ in profile.points if s > b + 1e-6])
    words = in_words(beyond, profile.ray.tell(1.0).partition(" =")[0]) if beyond and profile.ray.side == 1 else ""
    return Stretch(profile, a, b, all(equal), words.replace("e", "|e|") if words else "")


def _edge(profile: Profile, other: Loss, factor: float, inside: float, outside: float) -> float:
    for _ in range(40):
        middle = (inside + outside) / 2
        mine, theirs = profile.loss.attempt(profile.ray.at(middle)), other.attempt(profile.ray.at(middle))
        if abs(mine - factor * theirs) <= 1e-9 * max(abs(mine), abs(theirs)) + 1e-12:
            inside = middle
        else:
            outside = middle
    return round(inside, 6)


def _example(
    profiles: list[Profile],
    theirs: list[list[Point]],
    factor: float,
    stretches: tuple[Stretch, ...],
) -> tuple[str, tuple[Sample, ...]]:
    for profile, points, stretch in zip(profiles, theirs, stretches, strict=True):
        for mine, other in zip(profile.points, points, strict=True):
            if not stretch.whole and not _equal(profile, mine, other, 1.0) and mine[0] > 1.2 * stretch.end:
                return f"at {profile.ray.tell(mine[0])} it is {told(mine[1])}, the other {told(other[1])}", (
                    profile.ray.at(mine[0]),
                )
    return "", ()
