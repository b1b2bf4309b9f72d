"""The rules of views, parts of an axis and joins, each against one-hot truth in float64."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from tests.derivatives.nodes.oracles import (
    Planted,
    can_push,
    drawn,
    names_on_the_way,
    normal,
    proved_layouts,
    pushed_derivatives,
    samples_meet,
    true_derivatives,
    uncovered,
    weighed,
    whole_jacobian,
    wrong_proofs,
)
from tests.derivatives.nodes.rearranging import ROWS, Row
from torch import Tensor

from gradwright.derivatives.nodes import Place, Rule, joins, parts, rule_of, shapes

every_row = pytest.mark.parametrize("row", ROWS, ids=[row.id for row in ROWS])


def graph(row: Row) -> tuple[Tensor, Tensor]:
    z = drawn(*row.shape).requires_grad_()
    return row.f(z), z


def test_every_rule_has_a_row() -> None:
    assert shapes.RULES.keys() | parts.RULES.keys() | joins.RULES.keys() == {row.node for row in ROWS}


@every_row
def test_a_row_records_its_node(row: Row) -> None:
    y, z = graph(row)
    assert row.node in names_on_the_way(y, z)


@every_row
def test_samples_stay_apart_where_it_is_said_and_only_there(row: Row) -> None:
    y, z = graph(row)
    assert not wrong_proofs(y, z)
    assert proved_layouts(y, z) == row.proved


@every_row
def test_a_push_is_the_derivative_and_can_be_differentiated(row: Row) -> None:
    z = drawn(*row.shape).requires_grad_()
    y = row.f(z.sin()).exp() if "BackwardBackward" not in row.node else row.f(z)
    y = y.reshape(-1)[::2][:5]
    first, second = normal(3, *row.shape, like=z), normal(*row.shape, like=z, seed=4)
    assert can_push(y, z, 2)
    seen, true = pushed_derivatives(y, z, first, second, 2), true_derivatives(y, z, first, second)
    torch.testing.assert_close(seen, true)
    grads = [torch.autograd.grad(weighed(*made), z, retain_graph=True)[0] for made in (seen, true)]
    torch.testing.assert_close(*grads)


@every_row
def test_a_push_without_a_second_derivative_makes_none(row: Row) -> None:
    y, z = graph(row)
    first = normal(2, *row.shape, like=z)
    seen, _ = pushed_derivatives(y, z, first, None, 1)
    jacobian = whole_jacobian(y, z).reshape(y.numel(), z.numel())
    torch.testing.assert_close(seen.reshape(2, -1), first.reshape(2, -1) @ jacobian.T)


@every_row
def test_directions_that_are_expanded_make_the_same(row: Row) -> None:
    y, z = graph(row)
    first = normal(2, *z.shape[1:], like=z).unsqueeze(1).expand(2, *z.shape)
    seen, _ = pushed_derivatives(y, z, first, None, 1)
    torch.testing.assert_close(seen, pushed_derivatives(y, z, first.clone(), None, 1)[0])


#: Rows whose functions name sizes of the batch, or take an axis of size 1 away.
OF_ITS_SIZE = {f"{name}Backward0" for name in ("View", "UnsafeView", "ReshapeAlias", "Expand", "Squeeze", "Stack")}
ANY_SIZE = [row for row in ROWS if row.node not in OF_ITS_SIZE and (0, 0) in row.proved and not row.note]


@pytest.mark.parametrize("samples", [0, 1], ids=["empty", "one"])
@pytest.mark.parametrize("row", ANY_SIZE, ids=[row.id for row in ANY_SIZE])
def test_an_empty_batch_and_a_batch_of_one_are_pushed(row: Row, samples: int) -> None:
    z = drawn(samples, *row.shape[1:]).requires_grad_()
    y = row.f(z)
    seen, _ = pushed_derivatives(y, z, normal(2, *z.shape, like=z), None, 1)
    assert seen.shape == (2, *y.shape)


@every_row
def test_a_pattern_covers_the_derivatives(row: Row) -> None:
    y, z = graph(row)
    assert {uncovered(y, z, there, here) for there, here in sorted(row.proved)[:2]} <= {0}


@every_row
def test_it_can_be_differentiated_twice(row: Row) -> None:
    rule = rule_of(row.node)
    assert rule is not None
    assert rule.twice
    torch.autograd.gradgradcheck(lambda z: row.f(z.sin()).exp(), drawn(*row.shape).requires_grad_(), fast_mode=True)


MIXING: dict[str, Callable[[Tensor], Tensor]] = {
    "a transpose back another way": lambda z: z.view(2, 3, 3).transpose(0, 1).reshape(6, 3),
    "the batch split and merged in another order": lambda z: z.view(3, 2, 3).transpose(0, 1).reshape(6, 3),
    "a view over two samples": lambda z: z.view(3, 6).flip(1).view(6, 3),
    "neighbours": lambda z: torch.cat([z[1:] * z[:-1], z[:1]]),
    "halves": lambda z: torch.cat([z[:3] * z[3:], z[3:]]),
    "turned round": lambda z: z.flip(0),
    "rolled": lambda z: z.roll(1, 0),
    "all entries rolled": lambda z: z.roll(1),
    "samples stacked again": lambda z: torch.stack([z[5], *z[:5]]),
    "one sample for all": lambda z: z[:1].expand(6, 3),
    "one sample repeated": lambda z: z[:1].repeat(6, 1),
    "windows over samples": lambda z: z.unfold(0, 1, 1).flip(0),
    "rounds cut in the middle": lambda z: torch.cat([z, z])[3:9],
    "rounds in another order of axes": lambda z: torch.stack([z, z], 1).flatten(0, 1)[:6],
    "padded in front": lambda z: torch.nn.functional.pad(z, (0, 0, 1, -1)),
}


@pytest.mark.parametrize("f", MIXING.values(), ids=MIXING.keys())
def test_samples_that_meet_are_never_proved_apart(f: Callable[[Tensor], Tensor]) -> None:
    z = drawn(6, 3).requires_grad_()
    y = f(z)
    jacobian = whole_jacobian(y, z)
    wrong = {(a, 0) for a in range(y.ndim) if y.shape[a] == 6 and samples_meet(jacobian, a, 0, y.ndim)}
    assert wrong, "the case is no trap"
    assert not wrong & proved_layouts(y, z)


def test_the_batch_is_followed_through_the_views_of_multihead_attention() -> None:
    z = drawn(2, 3, 4).requires_grad_()  # [S, B, E]
    attention = torch.nn.MultiheadAttention(4, 2).double()
    flat = z.reshape(6, 4) @ attention.in_proj_weight.T
    y = flat.view(2, 3, 12)[..., :4].reshape(2, 3 * 2, 2).transpose(0, 1)  # [B * heads, S, d]
    y = y.exp().transpose(0, 1).reshape(6, 4).view(2, 3, 4)
    assert not wrong_proofs(y, z)
    assert (1, 1) in proved_layouts(y, z)


# ---- the oracles see faults


def test_a_wrong_place_is_seen() -> None:
    z = drawn(3, 3).requires_grad_()
    y = z.exp().t()
    rule = rule_of("TBackward0")
    assert rule is not None
    assert not wrong_proofs(y, z)
    with Planted("TBackward0", replace(rule, batch=lambda step, place, number: [place])):
        assert wrong_proofs(y, z)


def test_a_view_that_forgets_the_order_of_the_batch_is_seen() -> None:
    z = drawn(3, 2, 2).requires_grad_()
    y = z.view(2, 3, 2)
    wrong = Rule(lambda step, place, number: [Place(1 - place.axis if place.axis < 2 else 2)])
    with Planted("ViewBackward0", wrong):
        assert wrong_proofs(y, z) == {(1, 0), (0, 1)}


def test_a_part_taken_for_a_round_is_seen() -> None:
    z = drawn(3, 2).requires_grad_()
    y = torch.cat([z, z])[1:4]
    with Planted("SliceBackward0", Rule(lambda step, place, number: [Place(place.axis, 2)])):
        assert wrong_proofs(y, z) == {(0, 0)}


def test_a_push_to_the_wrong_entries_and_a_pattern_of_them_are_seen() -> None:
    z = drawn(3, 2).requires_grad_()
    y = torch.cat([z, z.exp()], 1)
    rule = rule_of("CatBackward0")
    assert rule is not None and rule.push is not None and rule.spread is not None
    push, spread = rule.push, rule.spread
    first = normal(1, 3, 2, like=z)
    wrong = replace(
        rule,
        push=lambda step, jets, order: push(step, jets[::-1], order),
        spread=lambda step, reach: spread(step, [None, reach[1]]),
    )
    with Planted("CatBackward0", wrong):
        assert not torch.allclose(pushed_derivatives(y, z, first, None, 1)[0], true_derivatives(y, z, first, None)[0])
        assert uncovered(y, z, 0, 0) == 2
