"""Judges of a node's rule: what it says, against one-hot truth and autograd in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from gradwright.derivatives.graph.target import read_target
from gradwright.derivatives.graph.way import Into, Step, Way, find_way
from gradwright.derivatives.nodes import Jet, Place, Rule, rule_of

Rules = Callable[[str], Rule | None]
DIRECTIONS = 3

#: Of the points that a case is put to.
SEEDS = range(3)


@dataclass(frozen=True, eq=False)
class Case:
    """One use of a node: ``make`` builds y from z, of ``shape``.

    ``keeps``: for a plain batch along an axis of y, the axis of z in which the rule proves it; every other axis of y
    that is longer than 1 must not be proved.  ``push``: the order to which it can be pushed.
    ``pattern``: how its spread is to compare with the truth; "none" where it tells none.
    ``truth``: another way to compute y, where autograd's derivatives of
    this one are missing or wrong.  ``dtype``: float32 for kernels that know no other.
    """

    name: str
    make: Callable[[Tensor], Tensor]
    shape: tuple[int, ...]
    keeps: Mapping[int, int] = field(default_factory=dict)
    push: Literal[0, 1, 2] = 2
    pattern: Literal["exact", "covers", "none"] = "exact"
    truth: Callable[[Tensor], Tensor] | None = None
    dtype: torch.dtype = torch.float64

    def __str__(self) -> str:
        return self.name


def given(*shape: int, positive: bool = False, graph: bool = True) -> Tensor:
    """A constant of the graph, the same at every call; as a parameter would, it requires gradients."""
    generator = torch.Generator().manual_seed(sum(shape) + 17)
    drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
    return (drawn.abs() + 0.1 if positive else drawn).requires_grad_(graph)


def point(case: Case, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(case.shape, generator=generator, dtype=torch.float64).to(case.dtype).requires_grad_()


def way_of(y: Tensor, z: Tensor) -> Way:
    return find_way(y, read_target(z))


class Recorded(NamedTuple):
    z: Tensor
    y: Tensor
    way: Way


@lru_cache(maxsize=len(SEEDS))  # the case at hand: many laws look at its graphs, none changes one
def recorded(case: Case, seed: int) -> Recorded:
    z = point(case, seed)
    y = case.make(z)
    return Recorded(z, y, way_of(y, z))


def full_jacobian(y: Tensor, z: Tensor) -> Tensor:
    """[y.numel(), z.numel()], one backward for each entry of y."""
    rows = [
        torch.autograd.grad(entry, z, retain_graph=True, allow_unused=True, materialize_grads=True)[0].reshape(-1)
        for entry in y.reshape(-1)
    ]
    return torch.stack(rows) if rows else z.new_zeros(0, z.numel())


@cache
def nonzero(case: Case, seed: int) -> Tensor:
    """Where the Jacobian is not zero, [y.numel(), z.numel()]."""
    z, y, _ = recorded(case, seed)
    return full_jacobian(y, z) != 0


def places_of(shape: torch.Size) -> Iterator[tuple[Place, int]]:
    """Every place that a batch of two samples or more may have, and how many samples."""
    for axis, size in enumerate(shape):
        for outer in (n for n in range(1, size + 1) if size % n == 0):
            rest = size // outer
            for inner in (n for n in range(1, rest) if rest % n == 0):
                yield Place(axis, outer, inner), rest // inner


def sample_of(place: Place, samples: int, shape: torch.Size) -> Tensor:
    """The number of the sample that each entry belongs to, flattened."""
    assert shape[place.axis] == place.outer * samples * place.inner, "a place that does not fit its tensor"
    number = torch.arange(shape[place.axis]) // place.inner % samples
    trailing = (1,) * (len(shape) - place.axis - 1)
    return number.reshape(-1, *trailing).expand(shape).reshape(-1)


def followed(way: Way, place: Place, rules: Rules = rule_of) -> dict[Any, Place]:
    """Where each value's batch lies, from that of y back; without the target's key where it is not proved."""
    goal = (way.target.edge.node, way.target.edge.output_nr)
    places = {(way.output.grad_fn, way.output.output_nr): place}
    broken = False
    for step in way.steps:
        rule = rules(step.name)
        for number in [number for node, number in places if node is step.node]:
            back = rule.batch(step, places[step.node, number], number) if rule else [None] * len(step.inputs)
            for index, into in step.leading:
                found = back[index]
                if found is None or places.setdefault(into.key, found) != found:
                    broken = True
    if broken:
        places.pop(goal, None)
    return places


def told(way: Way, place: Place, rules: Rules = rule_of) -> Place | None:
    return followed(way, place, rules).get((way.target.edge.node, way.target.edge.output_nr))


def wrong_proof(case: Case, rules: Rules = rule_of) -> str | None:
    """A place for which the rules say that samples stay apart, and the Jacobian says that they do not."""
    for seed in SEEDS:
        z, y, way = recorded(case, seed)
        for place, samples in places_of(y.shape):
            found = told(way, place, rules)
            if found is None:
                continue
            meets = sample_of(place, samples, y.shape)[:, None] != sample_of(found, samples, z.shape)[None]
            if (nonzero(case, seed) & meets).any():
                return f"{place} of {samples} samples in y said to be {found} in z"
    return None


def carried(way: Way, first: Tensor, second: Tensor | None, order: int, rules: Rules = rule_of) -> Jet:
    """The jet of y."""
    jets: dict[Any, Jet] = {(way.target.edge.node, way.target.edge.output_nr): Jet(first, second)}
    for step in reversed(way.steps):
        rule = rules(step.name)
        assert rule is not None and rule.push is not None, step.name
        made = rule.push(step, [jets[into.key] if into.leads else None for into in step.inputs], order)
        jets |= {(step.node, number): jet for number, jet in made.items()}
    return jets[way.output.grad_fn, way.output.output_nr]


def wrong_push(case: Case, order: int, rules: Rules = rule_of) -> str | None:
    """What of the jet of y, or of its derivative in z, differs from autograd."""
    z, y, way = recorded(case, 0)
    generator = torch.Generator().manual_seed(5)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(z.dtype)

    tangents, bend = draw(DIRECTIONS, *z.shape), draw(*z.shape)
    jet = carried(way, tangents, bend if order == 2 else None, order, rules)
    weights = draw(*jet.first.shape)
    if jet.first.shape[1:] != y.shape:
        return f"first has shape {list(jet.first.shape)}"
    made = {"first": (weights * jet.first).sum()}
    reference = (case.truth or case.make)(z)
    true = {"first": sum(_slope((w * reference).sum(), z, v) for w, v in zip(weights, tangents, strict=True))}
    if order == 2:
        weight = draw(*y.shape)
        loss = (weight * reference).sum()
        true["second"] = _slope(loss, z, bend) + sum(_slope(_slope(loss, z, v), z, v) for v in tangents)
        if jet.second is None:
            return "second is None"
        if jet.second.shape != y.shape:
            return f"second has shape {list(jet.second.shape)}"
        made["second"] = (weight * jet.second).sum()
    tolerance = {"rtol": 1e-8, "atol": 1e-9} if z.dtype == torch.float64 else {"rtol": 1e-3, "atol": 1e-4}
    for name, value in made.items():
        if not torch.allclose(value, true[name], **tolerance):
            return f"{name} is {value.item()}, should be {true[name].item()}"
        if not torch.allclose(_gradient(value, z), _gradient(true[name], z), **tolerance):
            return f"the derivative of {name} is {_gradient(value, z)}, should be {_gradient(true[name], z)}"
    return None


def _gradient(value: Tensor, z: Tensor, create_graph: bool = False) -> Tensor:
    if not value.requires_grad:
        return torch.zeros_like(z)
    (made,) = torch.autograd.grad(
        value, z, retain_graph=True, create_graph=create_graph, allow_unused=True, materialize_grads=True
    )
    return made


def _slope(value: Tensor, z: Tensor, tangent: Tensor) -> Tensor:
    return (_gradient(value, z, create_graph=True) * tangent).sum()


@dataclass(frozen=True)
class SampleInto(Into):
    """NOTE [A pattern is of one sample] in nodes/reach.py."""

    place: Place

    @property
    def shape(self) -> torch.Size:
        return one_sample(super().shape, self.place)


@dataclass(frozen=True, eq=False)
class SampleStep(Step):
    places: Mapping[Any, Place]

    def shape(self, number: int = 0) -> torch.Size:
        return one_sample(super().shape(number), self.places[self.node, number])


def one_sample(shape: torch.Size, place: Place) -> torch.Size:
    return torch.Size((*shape[: place.axis], place.outer * place.inner, *shape[place.axis + 1 :]))


def pattern_of(way: Way, place: Place, rules: Rules = rule_of) -> Tensor | None:
    """What a sample's entries of z reach in its part of y, [D, K], by the spreads of the steps; None: can't tell."""
    places = followed(way, place)
    goal = (way.target.edge.node, way.target.edge.output_nr)
    shape = one_sample(way.target.shape, places[goal])
    patterns: dict[Any, Tensor] = {goal: torch.eye(math.prod(shape), dtype=torch.bool).reshape(-1, *shape)}
    for step in reversed(way.steps):
        rule = rules(step.name)
        if rule is None or rule.spread is None:
            return None
        inputs = tuple(
            SampleInto(into.node, into.number, True, places[into.key]) if into.leads else into for into in step.inputs
        )
        reach = [patterns[into.key] if into.leads else None for into in step.inputs]
        made = rule.spread(SampleStep(step.node, inputs, places), reach)
        if not made:
            return None
        patterns |= {(step.node, number): pattern for number, pattern in made.items()}
    whole = patterns[way.output.grad_fn, way.output.output_nr]
    assert whole.dtype == torch.bool
    assert whole.shape[1:] == one_sample(way.output.shape, place), "the pattern's shape is not one sample's"
    return whole.reshape(len(whole), -1)


def true_pattern(case: Case, place: Place, samples: int) -> Tensor:
    """Where a sample's Jacobian is not zero, [D, K], in any sample, for any of some points."""
    seen = torch.zeros((), dtype=torch.bool)
    for seed in SEEDS:
        z, y, way = recorded(case, seed)
        found = told(way, place)
        assert found is not None
        of_y, of_z = sample_of(place, samples, y.shape), sample_of(found, samples, z.shape)
        for sample in range(samples):
            seen = seen | nonzero(case, seed)[of_y == sample][:, of_z == sample].T
    return seen


def second_by_differences(case: Case) -> tuple[Tensor, Tensor]:
    """A Hessian's product with a random direction: by autograd, and by central differences of the first derivative."""
    generator = torch.Generator().manual_seed(9)

    def slope(z: Tensor, create_graph: bool) -> Tensor:
        y = case.make(z)
        weight = torch.randn(y.shape, generator=generator.manual_seed(9), dtype=torch.float64).to(y.dtype)
        return _gradient((weight * y).sum(), z, create_graph)

    z = point(case, 0)
    step = 1e-6 if z.dtype == torch.float64 else 1e-2
    along = torch.randn(z.shape, generator=generator, dtype=torch.float64).to(z.dtype)
    with torch.no_grad():
        ahead, back = (z + step * along).requires_grad_(), (z - step * along).requires_grad_()
    differences = (slope(ahead, False) - slope(back, False)) / (2 * step)
    return _gradient((slope(z, True) * along).sum(), z), differences
