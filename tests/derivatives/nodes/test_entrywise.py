"""The rules of operations entry by entry, each against one-hot truth in float64."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import pytest
import torch
from tests.derivatives.nodes.entrywise import CHOICES, PIECEWISE, RANDOM, ROWS, Row, fixed, weight
from tests.derivatives.nodes.oracles import (
    Graph,
    Planted,
    can_push,
    drawn,
    normal,
    proved,
    proved_layouts,
    pushed_derivatives,
    samples_meet,
    true_derivatives,
    true_slopes,
    uncovered,
    weighed,
    wrong_proofs,
)
from tests.laws import Laws
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from gradwright.derivatives.nodes import Place, Rule, arithmetic, backwards, choices, piecewise, pointwise, rule_of
from gradwright.derivatives.nodes.elementwise import by_backward, elementwise
from gradwright.derivatives.second_order import lacks_second


def test_every_rule_has_a_row() -> None:
    families = pointwise, piecewise, arithmetic, choices, backwards
    known = {name for family in families for name in family.RULES}
    alone = {"SincBackward0", "HardsigmoidBackward0", "LiftFreshBackward0"}
    assert known - {row.node for row in ROWS} == alone


laws = Laws[Row]()


def graph(row: Row, *shape: int) -> Graph:
    z = drawn(*shape, low=row.low, high=row.high).requires_grad_()
    return Graph(row.f(z), z)


@lru_cache(maxsize=1)  # what all the laws of a row look at
def small(row: Row) -> Graph:
    return graph(row, 2, 3)


@laws
def a_row_records_its_node(row: Row) -> None:
    assert row.node in small(row).way.names


@laws
def samples_stay_apart_along_every_axis_and_nowhere_else(row: Row) -> None:
    made = graph(row, 3, 3, 2)
    assert proved_layouts(made) >= {(0, 0), (1, 1), (2, 2)}
    assert not wrong_proofs(made)


@laws
def a_push_is_the_derivative_and_can_be_differentiated(row: Row) -> None:
    made = small(row)
    first, second = normal(3, 2, 3, like=made.z), normal(2, 3, like=made.z, seed=4)
    assert can_push(made, 2)
    seen, true = pushed_derivatives(made, first, second, 2), true_derivatives(made, first, second)
    torch.testing.assert_close(seen, true)
    assert_same_gradients(seen, true, made.z)


def assert_same_gradients(seen: tuple[Tensor, Tensor], true: tuple[Tensor, Tensor], z: Tensor) -> None:
    """Of a number made from both: with respect to z, once more."""
    grads = [
        torch.autograd.grad(number, z, retain_graph=True, allow_unused=True)[0] if number.requires_grad else None
        for number in (weighed(*seen), weighed(*true))
    ]
    torch.testing.assert_close(*(torch.zeros_like(z) if grad is None else grad for grad in grads))


@laws
def a_push_of_order_one_makes_no_second_derivative(row: Row) -> None:
    made = small(row)
    first = normal(3, 2, 3, like=made.z)
    seen, nothing = pushed_derivatives(made, first, None, 1)
    torch.testing.assert_close(seen, true_slopes(made, first))
    assert not nothing.any()


@laws
def seeds_that_are_expanded_over_the_batch_make_the_same(row: Row) -> None:
    made = graph(row, 4, 3)
    first = torch.eye(3, dtype=made.z.dtype).unsqueeze(1).expand(3, 4, 3)
    seen = pushed_derivatives(made, first, None, 2)
    torch.testing.assert_close(seen, pushed_derivatives(made, first.clone(), None, 2))
    torch.testing.assert_close(seen[1], true_derivatives(made, first, None)[1])


@laws
def a_pattern_covers_the_derivatives(row: Row) -> None:
    made = graph(row, 2, 3, 2)
    assert [uncovered(made, axis, axis) for axis in range(3)] == [0, 0, 0]


@laws.where(lambda row: row not in RANDOM)
def what_says_it_has_a_second_derivative_has_the_right_one(row: Row) -> None:
    assert not lacks_second(row.node)
    z = drawn(2, 2, low=row.low, high=row.high).requires_grad_()
    torch.autograd.gradgradcheck(row.f, z, atol=1e-5)


@laws.where(lambda row: row in PIECEWISE + CHOICES)
def at_kinks_and_ties_a_push_takes_the_slope_that_autograd_takes(row: Row) -> None:
    z = torch.tensor([[-5, -3, -1, -0.5, -0.0, 0, 0.5, 0.7, 1, 2, 3, 6]], dtype=torch.float64, requires_grad=True)
    first = normal(2, *z.shape, like=z)
    made = Graph(row.f(z), z)
    torch.testing.assert_close(pushed_derivatives(made, first, None, 2), true_derivatives(made, first, None))


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_rule_keeps_every_law(row: Row) -> None:
    laws.hold(row)


def test_hardsigmoid_is_pushed_though_torch_cannot_differentiate_its_backward() -> None:
    z = drawn(2, 3, low=-5.0, high=5.0).requires_grad_()
    made = Graph(torch.nn.functional.hardsigmoid(z), z)
    seen = pushed_derivatives(made, torch.eye(6).double().reshape(6, 2, 3), None, 2)
    torch.testing.assert_close(seen[0].sum(0), (z.abs() < 3).double() / 6)
    assert not seen[1].any()


def test_the_recorded_backward_of_gelu_by_tanh_is_pushed_to_order_one() -> None:
    z = drawn(2, 3).requires_grad_()
    (y,) = torch.autograd.grad(torch.nn.functional.gelu(z, approximate="tanh"), z, z.cos(), create_graph=True)
    first = normal(3, 2, 3, like=z)
    made = Graph(y, z)
    assert not can_push(made, 2)
    torch.testing.assert_close(pushed_derivatives(made, first, None, 1)[0], true_slopes(made, first))


def test_a_real_number_to_a_complex_power_is_not_pushed() -> None:
    z = drawn(2, 3, low=0.5).requires_grad_()
    assert not can_push(Graph(z ** (1 + 2j), z), 1)
    assert can_push(Graph(z**3, z), 2)


def test_saved_tensors_that_a_checkpoint_recomputes_are_attached() -> None:
    z = drawn(2, 3).requires_grad_()
    made = Graph(checkpoint(lambda u: (u.sin() * u.exp()).tanh(), z, use_reentrant=False), z)
    first = normal(2, 2, 3, like=z)
    seen, true = pushed_derivatives(made, first, None, 2), true_derivatives(made, first, None)
    torch.testing.assert_close(seen, true)
    assert_same_gradients(seen, true, z)


# ---- weights as targets: all samples share them


@pytest.mark.parametrize(
    "f",
    [
        lambda x, w: x + w,
        lambda x, w: x * w,
        lambda x, w: x / w,
        lambda x, w: x**w,
        lambda x, w: torch.lerp(x, w.expand(x.shape), 0.3),
        lambda x, w: torch.addcmul(w, x, w),
        lambda x, w: torch.where(x > 1, x, w),
        lambda x, w: x.masked_fill(x > 1, w[0]),
        lambda x, w: x * w[0],
        lambda x, w: (x * 1).fill_(w[0]),
        lambda x, w: torch.maximum(x, w),
        lambda x, w: torch.nn.functional.prelu(-x.unsqueeze(1), w[:1]),
    ],
    ids=["add", "mul", "div", "pow", "lerp", "addcmul", "where", "fill", "scale", "fill_", "maximum", "prelu"],
)
def test_what_is_broadcast_over_the_batch_is_pushed_but_not_kept_apart(f: Callable[[Tensor, Tensor], Tensor]) -> None:
    x, w = drawn(3, 3, low=0.5), drawn(3, low=0.5, high=1.5).requires_grad_()
    made = Graph(f(x, w), w)
    assert not any(proved(made, axis, 0) for axis in range(made.y.ndim - 1))
    first, second = normal(4, 3, like=w), normal(3, like=w, seed=4)
    seen, true = pushed_derivatives(made, first, second, 2), true_derivatives(made, first, second)
    torch.testing.assert_close(seen, true)
    assert_same_gradients(seen, true, w)


MIXING: dict[str, Callable[[Tensor], Tensor]] = {
    "z + z.T": lambda z: z + z.T,
    "z * a row of z": lambda z: z * z[0],
    "z - its mean": lambda z: z - z.mean(0),
    "outer sum": lambda z: z[:, :1] + z[:, 0],
    "where by column": lambda z: torch.where(fixed(z) > 0.7, z, z.T),
    "maximum with another sample": lambda z: torch.maximum(z, z.flip(0)),
    "one sample in the place of all": lambda z: z.masked_fill(z > 0, z[0, 0]),
    "copied across": lambda z: torch.zeros_like(z).copy_(z[0]),
    "filled with one": lambda z: (z * 1).fill_(z[1, 1]),
    "power of another": lambda z: z.abs() ** z.roll(1, 0),
    "lerp to another": lambda z: torch.lerp(z, z.roll(1, 0), weight(z).expand(z.shape)),
    "addcmul of another": lambda z: torch.addcmul(z, z[0], z[1]),
    "atan2 of transposes": lambda z: torch.atan2(z, z.T),
}


@pytest.mark.parametrize("f", MIXING.values(), ids=MIXING.keys())
def test_samples_that_meet_are_never_proved_apart(f: Callable[[Tensor], Tensor]) -> None:
    z = drawn(3, 3).requires_grad_()
    made = Graph(f(z), z)
    assert samples_meet(made.jacobian, 0, 0, made.y.ndim)
    assert not proved(made, 0, 0)


# ---- the oracles see faults


def _tanh() -> Graph:
    z = drawn(3, 3).requires_grad_()
    return Graph(z.tanh(), z)


def test_a_wrong_batch_rule_is_seen() -> None:
    z = drawn(3, 3).requires_grad_()
    made = Graph(z + z.T, z)
    wrong = Rule(lambda step, place, number: [Place(0) for _ in step.inputs])
    with Planted("PermuteBackward0", wrong):
        assert wrong_proofs(made) == {(0, 0)}


def test_a_wrong_slope_a_wrong_curvature_and_a_detached_one_are_seen() -> None:
    made = _tanh()
    first, second = normal(3, 3, 3, like=made.z), normal(3, 3, like=made.z, seed=4)
    true = true_derivatives(made, first, second)
    rule = rule_of("TanhBackward0")
    assert rule is not None
    twice = elementwise(lambda step: lambda place: 2 * by_backward(step)(0))
    with Planted("TanhBackward0", twice):
        assert not torch.allclose(pushed_derivatives(made, first, second, 2)[0], true[0])
    flat = elementwise(by_backward)
    with Planted("TanhBackward0", flat):
        seen = pushed_derivatives(made, first, second, 2)
        assert torch.allclose(seen[0], true[0])
        assert not torch.allclose(seen[1], true[1])
    cut = elementwise(lambda step: lambda place: by_backward(step)(0).detach())
    with Planted("TanhBackward0", cut):
        seen = pushed_derivatives(made, first, None, 1)
        assert torch.allclose(seen[0], true[0])
        with pytest.raises(AssertionError):
            assert_same_gradients(seen, true_derivatives(made, first, None), made.z)


def test_a_pattern_that_leaves_an_entry_out_is_seen() -> None:
    made = _tanh()
    rule = rule_of("TanhBackward0")
    assert rule is not None
    with Planted("TanhBackward0", replace(rule, spread=lambda step, reach: {0: torch.zeros_like(reach[0])})):
        assert uncovered(made, 0, 0) == 3


# ---- the graph and the caller's state


def test_a_push_leaves_the_graph_alive_and_runs_no_hook() -> None:
    z = drawn(2, 3).requires_grad_()
    middle = z.sin()
    heard: list[Tensor] = []
    middle.register_hook(heard.append)
    y = middle.tanh()
    pushed_derivatives(Graph(y, z), normal(1, 2, 3, like=z), None, 2)
    assert not heard
    assert z.grad is None
    y.sum().backward()
    assert len(heard) == 1


def test_what_where_did_not_choose_may_have_an_infinite_derivative() -> None:
    z = torch.tensor([[0.0, 4.0]], dtype=torch.float64, requires_grad=True)
    made = Graph(torch.where(z > 0, z.sqrt(), 0.0), z)
    seen, _ = pushed_derivatives(made, torch.ones(1, 1, 2, dtype=torch.float64), None, 1)
    assert seen.tolist() == [[[0.0, 0.25]]]


@pytest.mark.parametrize("row", CHOICES[:3], ids=str)
def test_float32_and_mixed_dtypes_keep_the_dtype_of_the_output(row: Row) -> None:
    z = drawn(2, 3).float().requires_grad_()
    y = row.f(z) * torch.tensor(2.1, dtype=torch.float64)  # a number without axes promotes nothing
    seen, twice = pushed_derivatives(Graph(y, z), normal(2, 2, 3, like=z), None, 2)
    assert y.dtype == seen.dtype == twice.dtype == torch.float32
