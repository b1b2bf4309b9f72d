"""156 forwards as users write them: the derived gradient is autograd's, at sizes never seen, and no more is saved.

The collection stands in corpora/derived; its speed is measured there.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from corpora.derived import FAMILIES, FORWARDS, Forward
from corpora.derived.measuring import gradients, saved_bytes
from tests.laws import Laws

from gradwright.functions.derive import derive
from gradwright.functions.derive.derived import Derived

SIZE, OTHER_SIZE = 24, 70  # they differ in every length that may differ: see corpora/derived/forward.py
TOLERANCE = 1e-9


class Case(NamedTuple):
    """A forward, and what was derived for it at the first size."""

    forward: Forward
    derived: Derived

    def __str__(self) -> str:
        return self.forward.name

    @property
    def both_forms(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        return self.derived.custom_gradient, self.derived.function.apply


laws = Laws[Case]()


@pytest.mark.parametrize("forward", FORWARDS.values(), ids=FORWARDS)
def test_every_law_holds(forward: Forward) -> None:
    laws.hold(Case(forward, derive(forward.function, *forward.inputs(SIZE), level="quick")))


def difference(found: tuple[Any, ...], expected: tuple[Any, ...]) -> float:
    """The largest of all gradients, relative to the largest entry of each; one that is missing counts as zero."""
    worst = 0.0
    for one, other in zip(found, expected, strict=True):
        if one is None or other is None:
            present = other if one is None else one
            worst = max(worst, 0.0 if present is None or not present.any() else 1.0)
            continue
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        worst = max(worst, float((one - other).abs().max() / other.abs().max().clamp(min=1e-12)))
    return worst


@laws
def the_derived_gradient_is_autograds_at_two_sizes(case: Case) -> None:
    forward = case.forward
    for size in (SIZE, OTHER_SIZE):
        expected = gradients(forward.function, forward.inputs(size))
        for call in case.both_forms:
            assert difference(gradients(call, forward.inputs(size)), expected) < TOLERANCE


@laws
def the_value_is_the_forwards(case: Case) -> None:
    forward = case.forward
    inputs = forward.inputs(OTHER_SIZE)
    for call in case.both_forms:
        torch.testing.assert_close(call(*inputs), forward.function(*inputs), rtol=1e-10, atol=1e-12)


@laws
def no_more_is_saved_than_by_autograd(case: Case) -> None:
    forward = case.forward
    for size in (SIZE, OTHER_SIZE):
        inputs = forward.inputs(size)
        most = saved_bytes(forward.function, inputs)
        for call in case.both_forms:
            assert saved_bytes(call, inputs) <= most


def test_there_are_sixty_at_least_and_each_has_a_name_of_its_own() -> None:
    assert len(FORWARDS) == sum(map(len, FAMILIES.values())) >= 60


@pytest.mark.parametrize("fault", ["scaled", "one entry off", "missing", "swapped"])
def test_the_comparison_sees_a_planted_fault(fault: str) -> None:
    forward = FORWARDS["swish_with_slope"]
    x, beta = right = gradients(forward.function, forward.inputs(SIZE))
    assert difference(right, right) == 0
    entry = x.clone()
    entry[0, 0] += 1e-6
    wrong = {
        "scaled": (x * 1.0001, beta),
        "one entry off": (entry, beta),
        "missing": (x, None),
        "swapped": (x.flip(0), beta),
    }[fault]
    assert difference(wrong, right) > TOLERANCE


def test_saved_bytes_are_those_of_distinct_storages() -> None:
    x = torch.randn(100, dtype=torch.float64, requires_grad=True)
    assert saved_bytes(lambda x: x.sin(), (x,)) == 800
    assert saved_bytes(lambda x: x.sin() * x[:50].repeat(2), (x,)) == 3 * 800
    assert saved_bytes(lambda x: x * x, (x,)) == 800
    assert saved_bytes(lambda x: x + 1, (x,)) == 0
