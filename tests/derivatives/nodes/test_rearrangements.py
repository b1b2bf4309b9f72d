"""The rules of views, parts of an axis and joins, each against one-hot truth in float64."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import pytest
import torch
from tests.derivatives.asking import asking
from tests.derivatives.nodes.oracles import (
    Graph,
    Planted,
    can_push,
    drawn,
    normal,
    proved_layouts,
    pushed_derivatives,
    samples_meet,
    true_derivatives,
    true_slopes,
    uncovered,
    weighed,
    wrong_proofs,
)
from tests.derivatives.nodes.rearranging import ROWS, Row
from tests.laws import Laws
from torch import Tensor

from gradwright.derivatives.nodes import Place, Rule, joins, parts, rule_of, shapes
from gradwright.derivatives.second_order import lacks_second


def test_every_rule_has_a_row() -> None:
    assert shapes.RULES.keys() | parts.RULES.keys() | joins.RULES.keys() == {row.node for row in ROWS}


laws = Laws[Row]()


@lru_cache(maxsize=1)  # what all the laws of a row look at
def graph(row: Row) -> Graph:
    z = drawn(*row.shape).requires_grad_()
    return Graph(row.f(z), z)


@laws
def a_row_records_its_node(row: Row) -> None:
    assert row.node in graph(row).way.names


@laws
def samples_stay_apart_where_it_is_said_and_only_there(row: Row) -> None:
    assert not wrong_proofs(graph(row))
    assert proved_layouts(graph(row)) == row.proved


@laws
def a_push_is_the_derivative_and_can_be_differentiated(row: Row) -> None:
    z = drawn(*row.shape).requires_grad_()
    y = row.f(z.sin()).exp() if "BackwardBackward" not in row.node else row.f(z)
    bent = Graph(y.reshape(-1)[::2][:5], z)
    first, second = normal(3, *row.shape, like=z), normal(*row.shape, like=z, seed=4)
    assert can_push(bent, 2)
    seen, true = pushed_derivatives(bent, first, second, 2), true_derivatives(bent, first, second)
    torch.testing.assert_close(seen, true)
    grads = [torch.autograd.grad(weighed(*made), z, retain_graph=True)[0] for made in (seen, true)]
    torch.testing.assert_close(*grads)


@laws
def a_push_without_a_second_derivative_makes_none(row: Row) -> None:
    made = graph(row)
    first = normal(2, *row.shape, like=made.z)
    seen, _ = pushed_derivatives(made, first, None, 1)
    jacobian = made.jacobian.reshape(made.y.numel(), made.z.numel())
    torch.testing.assert_close(seen.reshape(2, -1), first.reshape(2, -1) @ jacobian.T)


@laws
def directions_that_are_expanded_make_the_same(row: Row) -> None:
    made = graph(row)
    first = normal(2, *row.shape[1:], like=made.z).unsqueeze(1).expand(2, *row.shape)
    seen, _ = pushed_derivatives(made, first, None, 1)
    torch.testing.assert_close(seen, pushed_derivatives(made, first.clone(), None, 1)[0])


#: Rows whose functions name sizes of the batch, or take an axis of size 1 away.
OF_ITS_SIZE = {f"{name}Backward0" for name in ("View", "UnsafeView", "ReshapeAlias", "Expand", "Squeeze", "Stack")}


@laws.where(lambda row: row.node not in OF_ITS_SIZE and (0, 0) in row.proved and not row.note)
def an_empty_batch_and_a_batch_of_one_are_pushed(row: Row) -> None:
    for samples in (0, 1):
        with asking(samples=samples):
            z = drawn(samples, *row.shape[1:]).requires_grad_()
            y = row.f(z)
            seen, _ = pushed_derivatives(Graph(y, z), normal(2, *z.shape, like=z), None, 1)
            assert seen.shape == (2, *y.shape)


@laws
def a_pattern_covers_the_derivatives(row: Row) -> None:
    assert {uncovered(graph(row), there, here) for there, here in sorted(row.proved)[:2]} <= {0}


@laws
def it_can_be_differentiated_twice(row: Row) -> None:
    assert not lacks_second(row.node)
    torch.autograd.gradgradcheck(lambda z: row.f(z.sin()).exp(), drawn(*row.shape).requires_grad_(), fast_mode=True)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_rule_keeps_every_law(row: Row) -> None:
    laws.hold(row)


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
    made = Graph(y, z)
    wrong = {(a, 0) for a in range(y.ndim) if y.shape[a] == 6 and samples_meet(made.jacobian, a, 0, y.ndim)}
    assert wrong, "the case is no trap"
    assert not wrong & proved_layouts(made)


def test_the_batch_is_followed_through_the_views_of_multihead_attention() -> None:
    z = drawn(2, 3, 4).requires_grad_()  # [S, B, E]
    attention = torch.nn.MultiheadAttention(4, 2).double()
    flat = z.reshape(6, 4) @ attention.in_proj_weight.T
    y = flat.view(2, 3, 12)[..., :4].reshape(2, 3 * 2, 2).transpose(0, 1)  # [B * heads, S, d]
    y = y.exp().transpose(0, 1).reshape(6, 4).view(2, 3, 4)
    made = Graph(y, z)
    assert not wrong_proofs(made)
    assert (1, 1) in proved_layouts(made)


# ---- the oracles see faults


def test_a_wrong_place_is_seen() -> None:
    z = drawn(3, 3).requires_grad_()
    made = Graph(z.exp().t(), z)
    rule = rule_of("TBackward0")
    assert rule is not None
    assert not wrong_proofs(made)
    with Planted("TBackward0", replace(rule, batch=lambda step, place, number: [place])):
        assert wrong_proofs(made)


def test_a_view_that_forgets_the_order_of_the_batch_is_seen() -> None:
    z = drawn(3, 2, 2).requires_grad_()
    made = Graph(z.view(2, 3, 2), z)
    wrong = Rule(lambda step, place, number: [Place(1 - place.axis if place.axis < 2 else 2)])
    with Planted("ViewBackward0", wrong):
        assert wrong_proofs(made) == {(1, 0), (0, 1)}


def test_a_part_taken_for_a_round_is_seen() -> None:
    z = drawn(3, 2).requires_grad_()
    made = Graph(torch.cat([z, z])[1:4], z)
    with Planted("SliceBackward0", Rule(lambda step, place, number: [Place(place.axis, 2)])):
        assert wrong_proofs(made) == {(0, 0)}


def test_a_push_to_the_wrong_entries_and_a_pattern_of_them_are_seen() -> None:
    z = drawn(3, 2).requires_grad_()
    made = Graph(torch.cat([z, z.exp()], 1), z)
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
        assert not torch.allclose(pushed_derivatives(made, first, None, 1)[0], true_slopes(made, first))
        assert uncovered(made, 0, 0) == 2
