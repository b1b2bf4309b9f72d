"""156 forwards as users write them: the derived gradient is autograd's, at sizes never seen, and no more is saved.

The collection stands in corpora/derived; its speed is measured there.
"""

import functools
from typing import Any

import pytest
import torch
from corpora.derived import FAMILIES, FORWARDS
from corpora.derived.measuring import gradients, saved_bytes

from gradwright.functions.derive import derive

SIZE, OTHER_SIZE = 24, 70  # they differ in every length that may differ: see corpora/derived/forward.py
TOLERANCE = 1e-9


# The tests of one forward run in one worker, which derives it once.
EACH = [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in FORWARDS]


@functools.cache
def derived(name: str) -> Any:
    """Derived once, at the first size."""
    forward = FORWARDS[name]
    return derive(forward.function, *forward.inputs(SIZE), level="quick")


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


@pytest.mark.parametrize("name", EACH)
def test_the_derived_gradient_is_autograds_at_two_sizes(name: str) -> None:
    forward = FORWARDS[name]
    for size in (SIZE, OTHER_SIZE):
        expected = gradients(forward.function, forward.inputs(size))
        for call in (derived(name).custom_gradient, derived(name).function.apply):
            assert difference(gradients(call, forward.inputs(size)), expected) < TOLERANCE


@pytest.mark.parametrize("name", EACH)
def test_the_value_is_the_forwards(name: str) -> None:
    forward = FORWARDS[name]
    inputs = forward.inputs(OTHER_SIZE)
    for call in (derived(name).custom_gradient, derived(name).function.apply):
        torch.testing.assert_close(call(*inputs), forward.function(*inputs), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", EACH)
def test_no_more_is_saved_than_by_autograd(name: str) -> None:
    forward = FORWARDS[name]
    for size in (SIZE, OTHER_SIZE):
        inputs = forward.inputs(size)
        most = saved_bytes(forward.function, inputs)
        assert saved_bytes(derived(name).custom_gradient, inputs) <= most
        assert saved_bytes(derived(name).function.apply, inputs) <= most


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
