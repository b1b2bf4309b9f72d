"""Random chains of rearrangements and operations entry by entry: what is proved is so, wherever the batch lies."""

from collections.abc import Callable
from dataclasses import replace

import torch
from hypothesis import event, given, settings
from hypothesis import strategies as st
from tests.derivatives.nodes.oracles import (
    Graph,
    Planted,
    can_push,
    drawn,
    normal,
    proved_layouts,
    pushed_derivatives,
    uncovered,
    wrong_proofs,
)
from torch import Tensor

from gradwright.derivatives.nodes import Place, rule_of

#: How large a value may grow, and how far a chain goes.
ENTRIES, LENGTH = 36, 6

Draw = st.DataObject


def _axis(data: Draw, u: Tensor) -> int:
    return data.draw(st.integers(-u.ndim, u.ndim - 1), "axis")


def _reshape(data: Draw, u: Tensor) -> Tensor:
    left, shape = u.numel(), []
    while left > 1 and len(shape) < 4:
        size = data.draw(st.sampled_from([d for d in range(1, left + 1) if left % d == 0]), "size")
        shape.append(size)
        left //= size
    return u.reshape(*shape, left)


def _merge(data: Draw, u: Tensor) -> Tensor:
    if u.ndim < 2:
        return u
    first = data.draw(st.integers(0, u.ndim - 2), "first")
    return u.flatten(first, first + 1)


def _split(data: Draw, u: Tensor) -> Tensor:
    axis = _axis(data, u)
    return u.unflatten(axis, (data.draw(st.sampled_from([d for d in (1, 2, 3) if u.shape[axis] % d == 0]), "by"), -1))


def _slice(data: Draw, u: Tensor) -> Tensor:
    axis = _axis(data, u)
    start = data.draw(st.integers(0, u.shape[axis] - 1), "start")
    return u.narrow(axis, start, data.draw(st.integers(1, u.shape[axis] - start), "length"))


def _cat(data: Draw, u: Tensor) -> Tensor:
    axis = _axis(data, u)
    parts = [u.sin(), u.cos(), torch.ones_like(u.detach())]
    return torch.cat([parts[i] for i in data.draw(st.sampled_from([(0, 1), (1, 2), (2, 0), (2, 0, 2)]), "parts")], axis)


def _both_halves(data: Draw, u: Tensor) -> Tensor:
    first, second = torch.cat([u, u.sin()], axis := _axis(data, u)).chunk(2, axis)
    return first * second


STEPS: dict[str, Callable[[Draw, Tensor], Tensor]] = {
    "sin": lambda data, u: u.sin(),
    "times a constant": lambda data, u: u * drawn(u.shape[-1], low=0.5, high=1.5),
    "plus itself turned": lambda data, u: u + u.flip(_axis(data, u)),
    "plus its transpose": lambda data, u: u + u.mT if u.ndim > 1 and u.shape[-1] == u.shape[-2] else u,
    "times one entry of each": lambda data, u: u * u.narrow(_axis(data, u), 0, 1).cos(),
    "reshape": _reshape,
    "merge": _merge,
    "split": _split,
    "transpose": lambda data, u: u.transpose(_axis(data, u), _axis(data, u)),
    "permute": lambda data, u: u.permute(data.draw(st.permutations(range(u.ndim)), "dims")),
    "unsqueeze": lambda data, u: u.unsqueeze(_axis(data, u)),
    "squeeze": lambda data, u: u.squeeze(_axis(data, u)),
    "select": lambda data, u: u.select(_axis(data, u), -1) if u.ndim > 1 else u,
    "slice": _slice,
    "cat": _cat,
    "two rounds": _both_halves,
    "stack": lambda data, u: torch.stack([u, u.cos()], _axis(data, u)),
    "unbind": lambda data, u: u.unbind(_axis(data, u))[0] if u.ndim > 1 else u,
    "roll": lambda data, u: u.roll(data.draw(st.integers(-4, 4), "shift"), _axis(data, u)),
    "flip": lambda data, u: u.flip(_axis(data, u)),
    "repeat": lambda data, u: u.repeat(
        *data.draw(st.lists(st.integers(1, 2), min_size=u.ndim, max_size=u.ndim), label="n")
    ),
    "expand": lambda data, u: u.expand(2, *u.shape),
    "pad": lambda data, u: torch.nn.functional.pad(
        u, data.draw(st.sampled_from([(1, 0), (0, 0, 1, -1)[: 2 * u.ndim]]))
    ),
    "windows": lambda data, u: u.unfold(_axis(data, u), 1, 1),
    "diagonal": lambda data, u: u.diagonal(0, 0, -1) if u.ndim > 1 else u,
}


def chain(data: Draw) -> Graph:
    shape = data.draw(st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=3), label="shape")
    z = drawn(*shape).requires_grad_()
    y = z * 1
    for name in data.draw(st.lists(st.sampled_from(sorted(STEPS)), max_size=LENGTH), label="steps"):
        made = STEPS[name](data, y)
        if 0 < made.numel() <= ENTRIES and 0 < made.ndim < 6:
            y = made
    return Graph(y, z)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_what_is_proved_apart_is_apart_and_its_pattern_covers_it(data: Draw) -> None:
    graph = chain(data)
    assert not wrong_proofs(graph)
    layouts = proved_layouts(graph)
    event("proved somewhere" if layouts else "proved nowhere")
    assert {uncovered(graph, there, here) for there, here in sorted(layouts)[:2]} <= {0}


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_a_push_is_the_product_with_the_jacobian(data: Draw) -> None:
    graph = chain(data)
    y, z = graph.y, graph.z
    assert can_push(graph, 2)
    first = normal(2, *z.shape, like=z)
    seen, _ = pushed_derivatives(graph, first, None, 1)
    jacobian = graph.jacobian.reshape(y.numel(), z.numel())
    torch.testing.assert_close(seen.reshape(2, -1), first.reshape(2, -1) @ jacobian.T)


def test_chains_find_a_reshape_that_takes_any_axis_of_the_right_size() -> None:
    rule = rule_of("ViewBackward0")
    assert rule is not None

    def hasty(step: object, place: Place, number: int) -> list[Place | None]:
        size = step.shape()[place.axis]  # type: ignore[attr-defined]
        fitting = [axis for axis, before in enumerate(step.inputs[0].shape) if before == size]  # type: ignore[attr-defined]
        return [Place(fitting[-1]) if fitting else None]

    z = drawn(2, 3, 2).requires_grad_()
    graph = Graph(z.view(3, 2, 2), z)
    with Planted("ViewBackward0", replace(rule, batch=hasty)):  # type: ignore[arg-type]
        assert wrong_proofs(graph)
    assert not wrong_proofs(graph)
