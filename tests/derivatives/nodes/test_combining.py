"""Rules of steps that combine entries: products, sums, convolutions, normalisations, indices; against the truth."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from tests.derivatives.nodes import judge
from tests.derivatives.nodes.judge import Case
from tests.derivatives.nodes.tables import (
    convolution,
    indexing,
    linear_algebra,
    losses,
    matrices,
    normalisation,
    reductions,
)
from tests.laws import Laws
from torch import Tensor

from gradwright.derivatives.nodes import Jet, Place, Rule, rule_of
from gradwright.derivatives.second_order import lacks_second

CASES = [
    *matrices.CASES,
    *reductions.CASES,
    *convolution.CASES,
    *normalisation.CASES,
    *losses.CASES,
    *linear_algebra.CASES,
    *indexing.CASES,
]

laws = Laws[Case]()


@laws
def samples_are_proved_apart_where_they_are_and_nowhere_else(case: Case) -> None:
    _, y, way = judge.recorded(case, 0)
    told = {axis: judge.told(way, Place(axis)) for axis, size in enumerate(y.shape) if size > 1}
    assert {axis: place.axis for axis, place in told.items() if place is not None} == case.keeps


@laws
def no_entry_of_another_sample_is_reached_wherever_the_batch_may_lie(case: Case) -> None:
    assert judge.wrong_proof(case) is None


@laws
def it_says_to_which_order_it_can_be_pushed(case: Case) -> None:
    rules = [(step, rule_of(step.name)) for step in judge.recorded(case, 0).way.steps]
    able = [all(rule is not None and rule.can_push(step, order) for step, rule in rules) for order in (1, 2)]
    assert able == [case.push >= 1, case.push >= 2]


@laws.where(lambda case: case.push >= 1)
def tangents_are_pushed_as_autograd_has_them_and_can_be_differentiated(case: Case) -> None:
    assert judge.wrong_push(case, 1) is None


@laws.where(lambda case: case.push >= 2)
def second_derivatives_are_pushed_as_autograd_has_them(case: Case) -> None:
    assert judge.wrong_push(case, 2) is None


@laws.where(lambda case: bool(case.keeps))
def a_pattern_covers_every_entry_that_is_not_zero(case: Case) -> None:
    _, y, way = judge.recorded(case, 0)
    for axis in case.keeps:
        made = judge.pattern_of(way, Place(axis))
        assert (made is None) == (case.pattern == "none")
        if made is not None:
            true = judge.true_pattern(case, Place(axis), y.shape[axis])
            assert not (true & ~made).any()
            assert case.pattern == "covers" or torch.equal(made, true)


@laws
def a_second_derivative_is_right_or_said_to_be_missing(case: Case) -> None:
    z, _, way = judge.recorded(case, 0)
    assert all(rule_of(step.name) is not None for step in way.steps)
    if any(lacks_second(step.name) for step in way.steps):
        with pytest.raises(RuntimeError, match="is not implemented"):
            judge.second_by_differences(case)
        return
    made, differences = judge.second_by_differences(case)
    tolerance = 1e-6 if z.dtype == torch.float64 else 1e-2
    assert torch.allclose(made, differences, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_rule_keeps_every_law(case: Case) -> None:
    laws.hold(case)


def test_groups_of_a_convolution_keep_samples_apart_that_lie_along_the_channels() -> None:
    # StyleGAN2's modulated convolution: [1, B * C, L] with a weight per sample, and the same transposed
    z = torch.randn(1, 6, 3, dtype=torch.float64, requires_grad=True)
    y = F.conv1d(z, judge.given(4, 3, 2), groups=2)
    assert judge.told(judge.way_of(y, z), Place(1, inner=2)) == Place(1, inner=3)
    weight = judge.given(4, 3, 2).detach().requires_grad_()
    y = F.conv1d(z, weight, groups=2)
    assert judge.told(judge.way_of(y, weight), Place(1, inner=2)) == Place(0, inner=2)
    weight = judge.given(6, 2, 2).detach().requires_grad_()
    y = F.conv_transpose1d(z, weight, groups=2)
    assert judge.told(judge.way_of(y, weight), Place(1, inner=2)) == Place(0, inner=3)


def test_an_expanded_direction_is_pushed_as_a_copied_one() -> None:
    for case in CASES:
        if case.name in ("conv1d", "mm-rows", "linear", "bmm-left"):
            z, _, way = judge.recorded(case, 0)
            tangents = torch.randn(2, 1, *case.shape[1:], dtype=z.dtype).expand(2, *case.shape)
            made = judge.carried(way, tangents, None, 1).first
            assert torch.allclose(made, judge.carried(way, tangents.clone(), None, 1).first)


def _with(name: str, **changed: object):
    """The rules, with one of them changed for the worse."""

    def rules(asked: str) -> Rule | None:
        rule = rule_of(asked)
        if asked != name or rule is None:
            return rule
        parts = {"batch": rule.batch, "push": rule.push, "spread": rule.spread} | changed
        return Rule(**parts)  # type: ignore[arg-type]

    return rules


def _case(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


def _same(step: object, place: Place, number: int) -> list[Place]:
    return [place] * 3


@pytest.mark.parametrize(
    ("case", "node"),
    [
        ("softmax-over-the-batch", "SoftmaxBackward0"),
        ("cumsum-along-the-batch", "CumsumBackward0"),
        ("mm-with-itself", "MmBackward0"),
        ("bmm-with-itself", "BmmBackward0"),
        ("layer-norm-over-the-batch", "NativeLayerNormBackward0"),
        ("batch-norm-training", "NativeBatchNormBackward0"),
        ("conv1d", "ConvolutionBackward0"),
        ("attention-key", "ScaledDotProductFlashAttentionForCpuBackward0"),
        ("index-select-rows", "IndexSelectBackward0"),
        ("rows-shuffled", "IndexBackward0"),
        ("gather-rows", "GatherBackward0"),
        ("max-pool-of-one-image", "MaxPool2DWithIndicesBackward0"),
    ],
)
def test_the_judge_rejects_a_rule_that_keeps_every_place(case: str, node: str) -> None:
    chosen = _case(case)
    if case in ("conv1d", "max-pool-of-one-image"):  # sizes of z and y must agree for the planted place to fit
        chosen = Case(case, SAME_SIZE[case], (4, 4, 4))
    assert judge.wrong_proof(chosen, _with(node, batch=_same)) is not None


SAME_SIZE = {
    "conv1d": lambda z: F.conv1d(z, judge.given(4, 4, 3), padding=1),
    "max-pool-of-one-image": lambda z: F.max_pool2d(z, 3, 1, 1),
}


@pytest.mark.parametrize(
    ("case", "node", "order"),
    [
        ("softmax", "SoftmaxBackward0", 1),
        ("softmax", "SoftmaxBackward0", 2),
        ("layer-norm", "NativeLayerNormBackward0", 1),
        ("mm-with-itself", "MmBackward0", 2),
        ("conv1d", "ConvolutionBackward0", 1),
    ],
)
def test_the_judge_rejects_a_push_that_is_off(case: str, node: str, order: int) -> None:
    rule = rule_of(node)
    assert rule is not None
    assert rule.push is not None
    right = rule.push

    def wrong(step: object, jets: object, order: int) -> dict[int, Jet]:
        jet = right(step, jets, order)[0]  # type: ignore[arg-type]
        if order == 1:
            return {0: Jet(jet.first * 1.001)}
        assert jet.second is not None
        return {0: Jet(jet.first, jet.second * 1.001)}

    assert judge.wrong_push(_case(case), order, _with(node, push=wrong)) is not None


def test_the_judge_rejects_a_push_cut_from_the_graph() -> None:
    rule = rule_of("SoftmaxBackward0")
    assert rule is not None
    assert rule.push is not None
    right = rule.push

    def wrong(step: object, jets: object, order: int) -> dict[int, object]:
        return {0: Jet(right(step, jets, order)[0].first.detach())}  # type: ignore[arg-type]

    told = judge.wrong_push(_case("softmax"), 1, _with("SoftmaxBackward0", push=wrong))
    assert told is not None
    assert "derivative of first" in told


def test_the_judge_sees_a_pattern_that_misses_an_entry() -> None:
    def narrow(step: object, reach: list[Tensor | None]) -> dict[int, Tensor]:
        (into,) = reach
        assert into is not None
        return {0: into}  # a softmax mixes its axis

    case = _case("softmax")
    made = judge.pattern_of(judge.recorded(case, 0).way, Place(0), _with("SoftmaxBackward0", spread=narrow))
    assert made is not None
    assert (judge.true_pattern(case, Place(0), 4) & ~made).any()
