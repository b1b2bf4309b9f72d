"""Sums of what comes from several ways: the same in any order, however few operations they make of it."""

import itertools
import random

import pytest
import torch
from tests.kernels.formula.evaluated import numbers

from gradwright.kernels.formula import flows as flows_module
from gradwright.kernels.formula.expression import Expression, add, call, condition, constant, not_, number, sub
from gradwright.kernels.formula.flows import Flow, summed
from gradwright.kernels.formula.guards import either
from gradwright.kernels.formula.program import Program
from gradwright.kernels.formula.rules import ONE, Partial

X, Y, C, D, MASK = number("x"), number("y"), number("c"), number("d"), condition("m")
CONDITIONS = (MASK, call("lt", X, Y), call("gt", X, Y))
# Every combination of the conditions: x less than, equal to, greater than y, masked or not.
OPERANDS = {
    "x": torch.tensor([1.0, 2.0, 3.0] * 2, dtype=torch.float64),
    "y": torch.full((6,), 2.0, dtype=torch.float64),
    "c": torch.full((6,), 0.7, dtype=torch.float64),
    "d": torch.full((6,), -1.3, dtype=torch.float64),
    "m": torch.tensor([True] * 3 + [False] * 3),
}


def evaluated(output: Expression) -> torch.Tensor:
    (result,) = numbers(Program(tuple(OPERANDS), (output,), frozenset({"m"})), *OPERANDS.values())
    return result


def random_flow(choose: random.Random) -> Flow:
    guard = tuple((each, choose.random() < 0.5) for each in CONDITIONS[: choose.randrange(4)])
    slope = choose.choice([ONE, X, X, Y, X * Y, ONE / X, constant(3.0)])
    return Flow(choose.choice([C, C, C, D, None]), slope, choose.choice([1.0, -1.0, 2.0, -2.0, 0.5]), guard)


def wrong_sums(seed: int) -> list[str]:
    """Sums, and sums multiplied by what is infinite where none of them counts, that are not sums of the values."""
    choose = random.Random(seed)
    flows = [random_flow(choose) for _ in range(choose.randrange(2, 5))]
    plain = [flow.plain() for flow in flows]
    truth = sum((evaluated(each) for each in plain), torch.zeros(6, dtype=torch.float64))
    counts = torch.zeros(6, dtype=torch.bool)
    for flow in flows:
        counts |= evaluated(flow._replace(factor=None, slope=ONE, coefficient=1.0).plain()) != 0
    found = []
    for order in itertools.permutations(flows):
        total = summed(order)
        beyond = total.through(Partial(over=constant(0.0))) if total.guard else total
        assert beyond is not None
        if not torch.allclose(evaluated(total.plain()), truth, rtol=1e-13, atol=1e-13):
            found.append(f"the sum of {[each.operation for each in plain]}")
        elif not (evaluated(beyond.plain())[~counts] == 0).all():
            found.append("its guard is wider than theirs")
    return found


@pytest.mark.parametrize("block", range(4))
def test_a_sum_of_flows_is_the_sum_of_their_values_in_any_order(block: int) -> None:
    assert not [fault for seed in range(30 * block, 30 * block + 30) for fault in wrong_sums(seed)]


def test_a_planted_sum_of_both_branches_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows_module, "_chosen", lambda each, a, b: flows_module._combined(a, b, add, sub))
    assert any(wrong_sums(seed) for seed in range(40))


def test_a_planted_condition_the_wrong_way_round_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = flows_module._chosen
    monkeypatch.setattr(flows_module, "_chosen", lambda each, a, b: chosen((each[0], True), a, b))
    assert any(wrong_sums(seed) for seed in range(40))


def test_what_contradicts_what_was_passed_never_counts() -> None:
    flow = Flow(C, guard=((MASK, True),))
    assert flow.through(Partial(guard=not_(MASK))) is None
    passed = flow.through(Partial(guard=MASK))
    assert passed is not None and passed.guard == flow.guard


def test_one_of_two_exclusive_comparisons_always_fails_but_not_always_holds() -> None:
    below, above = call("lt", X, Y), call("gt", X, Y)
    assert either(((below, False),), ((above, False),)) == ()
    assert len(either(((below, True),), ((above, True),))) == 1
    assert len(either(((below, False),), ((call("le", Y, X), False),))) == 1
