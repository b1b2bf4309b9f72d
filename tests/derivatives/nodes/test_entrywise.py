"""The rules of operations entry by entry, each against one-hot truth in float64."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from tests.derivatives.nodes.entrywise import CHOICES, PIECEWISE, RANDOM, ROWS, Row, fixed, weight
from tests.derivatives.nodes.oracles import (
    Planted,
    can_push,
    drawn,
    names_on_the_way,
    normal,
    proved,
    proved_layouts,
    pushed_derivatives,
    samples_meet,
    true_derivatives,
    uncovered,
    weighed,
    whole_jacobian,
    wrong_proofs,
)
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from gradwright.derivatives.nodes import Place, Rule, arithmetic, backwards, choices, piecewise, pointwise, rule_of
from gradwright.derivatives.nodes.elementwise import by_backward, elementwise

every_row = pytest.mark.parametrize("row", ROWS, ids=[row.id for row in ROWS])


def point(row: Row, *shape: int) -> Tensor:
    return drawn(*shape, low=row.low, high=row.high).requires_grad_()


def test_every_rule_has_a_row() -> None:
    families = pointwise, piecewise, arithmetic, choices, backwards
    known = {name for family in families for name in family.RULES}
    alone = {"SincBackward0", "HardsigmoidBackward0", "LiftFreshBackward0"}
    assert known - {row.node for row in ROWS} == alone


@every_row
def test_a_row_records_its_node(row: Row) -> None:
    z = point(row, 2, 3)
    assert row.node in names_on_the_way(row.f(z), z)


@every_row
def test_samples_stay_apart_along_every_axis_and_nowhere_else(row: Row) -> None:
    z = point(row, 3, 3, 2)
    y = row.f(z)
    assert proved_layouts(y, z) >= {(0, 0), (1, 1), (2, 2)}
    assert not wrong_proofs(y, z)


@every_row
def test_a_push_is_the_derivative_and_can_be_differentiated(row: Row) -> None:
    z = point(row, 2, 3)
    y = row.f(z)
    first, second = normal(3, 2, 3, like=z), normal(2, 3, like=z, seed=4)
    assert can_push(y, z, 2)
    seen, true = pushed_derivatives(y, z, first, second, 2), true_derivatives(y, z, first, second)
    torch.testing.assert_close(seen, true)
    assert_same_gradients(seen, true, z)


def assert_same_gradients(seen: tuple[Tensor, Tensor], true: tuple[Tensor, Tensor], z: Tensor) -> None:
    """Of a number made from both: with respect to z, once more."""
    grads = [
        torch.autograd.grad(number, z, retain_graph=True, allow_unused=True)[0] if number.requires_grad else None
        for number in (weighed(*seen), weighed(*true))
    ]
    torch.testing.assert_close(*(torch.zeros_like(z) if grad is None else grad for grad in grads))


@every_row
def test_a_push_of_order_one_makes_no_second_derivative(row: Row) -> None:
    z = point(row, 2, 3)
    y = row.f(z)
    first = normal(3, 2, 3, like=z)
    seen, nothing = pushed_derivatives(y, z, first, None, 1)
    torch.testing.assert_close(seen, true_derivatives(y, z, first, None)[0])
    assert not nothing.any()


@every_row
def test_seeds_that_are_expanded_over_the_batch_make_the_same(row: Row) -> None:
    z = point(row, 4, 3)
    y = row.f(z)
    first = torch.eye(3, dtype=z.dtype).unsqueeze(1).expand(3, 4, 3)
    seen = pushed_derivatives(y, z, first, None, 2)
    torch.testing.assert_close(seen, pushed_derivatives(y, z, first.clone(), None, 2))
    torch.testing.assert_close(seen[1], true_derivatives(y, z, first, None)[1])


@every_row
def test_a_pattern_covers_the_derivatives(row: Row) -> None:
    z = point(row, 2, 3, 2)
    y = row.f(z)
    assert [uncovered(y, z, axis, axis) for axis in range(3)] == [0, 0, 0]


@pytest.mark.parametrize("row", [row for row in ROWS if row not in RANDOM], ids=lambda row: row.id)
def test_what_says_it_has_a_second_derivative_has_the_right_one(row: Row) -> None:
    rule = rule_of(row.node)
    assert rule is not None
    assert rule.twice
    z = point(row, 2, 2)
    torch.autograd.gradgradcheck(row.f, z, atol=1e-5)


def test_hardsigmoid_is_pushed_though_torch_cannot_differentiate_its_backward() -> None:
    z = drawn(2, 3, low=-5.0, high=5.0).requires_grad_()
    seen = pushed_derivatives(torch.nn.functional.hardsigmoid(z), z, torch.eye(6).double().reshape(6, 2, 3), None, 2)
    torch.testing.assert_close(seen[0].sum(0), (z.abs() < 3).double() / 6)
    assert not seen[1].any()
    rules = rule_of("HardsigmoidBackward0"), rule_of("SincBackward0")
    assert [rule is not None and rule.twice for rule in rules] == [False, False]


def test_the_recorded_backward_of_gelu_by_tanh_is_pushed_to_order_one() -> None:
    z = drawn(2, 3).requires_grad_()
    (y,) = torch.autograd.grad(torch.nn.functional.gelu(z, approximate="tanh"), z, z.cos(), create_graph=True)
    first = normal(3, 2, 3, like=z)
    assert not can_push(y, z, 2)
    torch.testing.assert_close(pushed_derivatives(y, z, first, None, 1)[0], true_derivatives(y, z, first, None)[0])


@pytest.mark.parametrize("row", PIECEWISE + CHOICES, ids=[row.id for row in PIECEWISE + CHOICES])
def test_at_kinks_and_ties_a_push_takes_the_slope_that_autograd_takes(row: Row) -> None:
    z = torch.tensor([[-5, -3, -1, -0.5, -0.0, 0, 0.5, 0.7, 1, 2, 3, 6]], dtype=torch.float64, requires_grad=True)
    first = normal(2, *z.shape, like=z)
    y = row.f(z)
    torch.testing.assert_close(pushed_derivatives(y, z, first, None, 2), true_derivatives(y, z, first, None))


def test_a_real_number_to_a_complex_power_is_not_pushed() -> None:
    z = drawn(2, 3, low=0.5).requires_grad_()
    assert not can_push(z ** (1 + 2j), z, 1)
    assert can_push(z**3, z, 2)


def test_saved_tensors_that_a_checkpoint_recomputes_are_attached() -> None:
    z = drawn(2, 3).requires_grad_()
    y = checkpoint(lambda u: (u.sin() * u.exp()).tanh(), z, use_reentrant=False)
    first = normal(2, 2, 3, like=z)
    seen, true = (made(y, z, first, None, *more) for made, more in ((pushed_derivatives, (2,)), (true_derivatives, ())))
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
    y = f(x, w)
    assert not any(proved(y, w, axis, 0) for axis in range(y.ndim - 1))
    first, second = normal(4, 3, like=w), normal(3, like=w, seed=4)
    seen, true = pushed_derivatives(y, w, first, second, 2), true_derivatives(y, w, first, second)
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
    y = f(z)
    assert samples_meet(whole_jacobian(y, z), 0, 0, y.ndim)
    assert not proved(y, z, 0, 0)


# ---- the oracles see faults


def _tanh() -> tuple[Tensor, Tensor]:
    z = drawn(3, 3).requires_grad_()
    return z.tanh(), z


def test_a_wrong_batch_rule_is_seen() -> None:
    z = drawn(3, 3).requires_grad_()
    y = z + z.T
    wrong = Rule(lambda step, place, number: [Place(0) for _ in step.inputs])
    with Planted("PermuteBackward0", wrong):
        assert wrong_proofs(y, z) == {(0, 0)}


def test_a_wrong_slope_a_wrong_curvature_and_a_detached_one_are_seen() -> None:
    y, z = _tanh()
    first, second = normal(3, 3, 3, like=z), normal(3, 3, like=z, seed=4)
    true = true_derivatives(y, z, first, second)
    rule = rule_of("TanhBackward0")
    assert rule is not None
    twice = elementwise(lambda step: lambda place: 2 * by_backward(step)(0))
    with Planted("TanhBackward0", twice):
        assert not torch.allclose(pushed_derivatives(y, z, first, second, 2)[0], true[0])
    flat = elementwise(by_backward)
    with Planted("TanhBackward0", flat):
        seen = pushed_derivatives(y, z, first, second, 2)
        assert torch.allclose(seen[0], true[0])
        assert not torch.allclose(seen[1], true[1])
    cut = elementwise(lambda step: lambda place: by_backward(step)(0).detach())
    with Planted("TanhBackward0", cut):
        seen = pushed_derivatives(y, z, first, None, 1)
        assert torch.allclose(seen[0], true[0])
        with pytest.raises(AssertionError):
            assert_same_gradients(seen, true_derivatives(y, z, first, None), z)


def test_a_pattern_that_leaves_an_entry_out_is_seen() -> None:
    y, z = _tanh()
    rule = rule_of("TanhBackward0")
    assert rule is not None
    with Planted("TanhBackward0", replace(rule, spread=lambda step, reach: {0: torch.zeros_like(reach[0])})):
        assert uncovered(y, z, 0, 0) == 3


# ---- the graph and the caller's state


def test_a_push_leaves_the_graph_alive_and_runs_no_hook() -> None:
    z = drawn(2, 3).requires_grad_()
    middle = z.sin()
    heard: list[Tensor] = []
    middle.register_hook(heard.append)
    y = middle.tanh()
    pushed_derivatives(y, z, normal(1, 2, 3, like=z), None, 2)
    assert not heard
    assert z.grad is None
    y.sum().backward()
    assert len(heard) == 1


def test_what_where_did_not_choose_may_have_an_infinite_derivative() -> None:
    z = torch.tensor([[0.0, 4.0]], dtype=torch.float64, requires_grad=True)
    y = torch.where(z > 0, z.sqrt(), 0.0)
    seen, _ = pushed_derivatives(y, z, torch.ones(1, 1, 2, dtype=torch.float64), None, 1)
    assert seen.tolist() == [[[0.0, 0.25]]]


@pytest.mark.parametrize("row", CHOICES[:3], ids=[row.id for row in CHOICES[:3]])
def test_float32_and_mixed_dtypes_keep_the_dtype_of_the_output(row: Row) -> None:
    z = drawn(2, 3).float().requires_grad_()
    y = row.f(z) * torch.tensor(2.1, dtype=torch.float64)  # a number without axes promotes nothing
    seen, twice = pushed_derivatives(y, z, normal(2, 2, 3, like=z), None, 2)
    assert y.dtype == seen.dtype == twice.dtype == torch.float32
