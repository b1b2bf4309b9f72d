"""Conditions one after the other become one value, and a clamp where the loop surely is one."""

import itertools

import pytest
import torch
from tests.doctor.rewrite.loops.rewriting import added_lines, assert_rewritten, assert_same, ran, rewritten, source_of
from torch import nan, randn, tensor

from gradwright.ground.torch_versions import ties

inf = float("inf")
HARD = [nan, inf, -inf, 0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, 0.25]
NUMBERS = ((-0.5, 0.5), (0.5, -0.5), (0.5, 0.5), (nan, 0.5), (-0.5, nan), (-inf, inf), (0, 1))
CHOICE = "torch.where(x < low, low, torch.where(x > high, high, x))"
UNLESS_TRACKED = "if not x.requires_grad and low <= high else"

# name -> (what stands before the loop, the loop's body, what comes out)
CLAMPED = {
    "elif": (
        "y = x.clone()",
        "if x[i] < low:\n    y[i] = low\nelif x[i] > high:\n    y[i] = high",
        f"y = x.clamp(low, high) {UNLESS_TRACKED} {CHOICE}",
    ),
    "the upper bound first, the other way round": (
        "y = x.clone()",
        "if high < x[i]:\n    y[i] = high\nelif low > x[i]:\n    y[i] = low",
        f"y = x.clamp(low, high) {UNLESS_TRACKED} torch.where(x > high, high, torch.where(low > x, low, x))",
    ),
    "continue": (
        "y = x.clone()",
        "if x[i] < low:\n    y[i] = low\n    continue\nif x[i] > high:\n    y[i] = high",
        f"y = x.clamp(low, high) {UNLESS_TRACKED} {CHOICE}",
    ),
    "an expression": (
        "y = torch.zeros_like(x)",
        "y[i] = low if x[i] < low else high if x[i] > high else x[i]",
        f"y = x.clamp(low, high) {UNLESS_TRACKED} {CHOICE}",
    ),
    "assigned first": (
        "y = torch.empty_like(x)",
        "y[i] = x[i]\nif x[i] < -1:\n    y[i] = -1\nif x[i] > 1:\n    y[i] = 1",
        "y = torch.where(x < -1, -1, torch.where(x > 1, 1, x)) if x.requires_grad else x.clamp(-1, 1)",
    ),
    "what was written is compared again": (
        "y = x.clone()",
        "if y[i] < -1:\n    y[i] = -1\nif y[i] > 1:\n    y[i] = 1",
        "y = torch.where(x < -1, -1, torch.where(x > 1, 1, x)) if x.requires_grad else x.clamp(-1, 1)",
    ),
    "one bound": (
        "y = x.clone()",
        "if x[i] > 0.5:\n    y[i] = 0.5",
        "y = torch.where(x > 0.5, 0.5, x) if x.requires_grad else x.clamp(max=0.5)",
    ),
}
# A loop's body, what comes out where torch's clamp gives x the gradient at a bound (2.13), and where not (2.14).
MIN_AND_MAX = {
    "min of max": (
        "y[i] = min(max(x[i], -0.5), 0.5)",
        "y = x.clamp(-0.5, 0.5)",
        "y = torch.where(x < -0.5, -0.5, torch.where(x > 0.5, 0.5, x)) if x.requires_grad else x.clamp(-0.5, 0.5)",
    ),
    "max": (
        "y[i] = max(x[i], 0) * 2",
        "y = x.clamp(min=0) * 2",
        "y = (torch.where(x < 0, 0, x) if x.requires_grad else x.clamp(min=0)) * 2",
    ),
    "the number first": (
        "y[i] = min(0.5, x[i])",
        "y = torch.where(x < 0.5, x, 0.5)",
        "y = torch.where(x < 0.5, x, 0.5)",
    ),
}


def loop(before, body):
    inner = "\n".join("    " + line for line in body.split("\n"))
    return f"{before}\nfor i in range(len(x)):\n{inner}\nreturn y"


def assert_same_at_hard_values(text, after):
    for low, high in NUMBERS:
        for values in (HARD, [nan], [0.5], []):
            assert_same(text, after, [tensor(values), low, high])


@pytest.mark.parametrize("name", CLAMPED)
def test_a_clamp_comes_out_and_does_what_the_loop_did_at_ties_nan_and_bounds_in_any_order(name):
    before, body, expected = CLAMPED[name]
    text = source_of(loop(before, body), "x, low, high")
    proposal = rewritten(text, [randn(7), -0.5, 0.5])
    assert added_lines(proposal) == expected
    assert_same_at_hard_values(text, proposal.new_text)


@pytest.mark.parametrize("passes", [True, False])
@pytest.mark.parametrize("name", MIN_AND_MAX)
def test_pythons_min_and_max_become_a_clamp_where_it_has_their_gradient_at_a_bound(name, passes, monkeypatch):
    body, *expected = MIN_AND_MAX[name]
    monkeypatch.setattr(ties, "find_ties", lambda: ties.Ties(passes, not passes))
    text = source_of(loop("y = torch.zeros_like(x)", body), "x")
    assert added_lines(rewritten(text, [randn(7).requires_grad_()])) == expected[not passes]
    assert added_lines(rewritten(text, [randn(7)])) == expected[not passes]


@pytest.mark.parametrize("name", MIN_AND_MAX)
def test_what_comes_of_pythons_min_and_max_has_their_gradient_at_a_bound(name):
    text = source_of(loop("y = torch.zeros_like(x)", MIN_AND_MAX[name][0]), "x")
    after = rewritten(text, [randn(7)]).new_text
    # At NaN a clamp has no gradient, and Python's min and max have one.
    assert_same(text, after, [tensor([value for value in HARD if value == value])])
    before, new = (ran(one, [tensor(HARD)], track=False)[1] for one in (text, after))
    torch.testing.assert_close(new, before, equal_nan=True)


def test_a_slope_of_zero_at_the_bound_is_found_by_the_same_comparison():
    text = source_of(loop("y = torch.zeros_like(x)", "y[i] = max(x[i], 0)"), "x")
    wrong = source_of("return torch.where(x > 0, x, 0)", "x")
    with pytest.raises(AssertionError):
        assert_same(text, wrong, [tensor([0.0, 1.0])])


# name -> (what stands before the loop, the loop's body, what comes out)
NO_CLAMP = {
    "NaN becomes the bound": (
        "y = torch.zeros_like(x)",
        "y[i] = x[i] if x[i] > 0 else 0",
        "y = torch.where(x > 0, x, 0)",
    ),
    "at the bound it is the bound": (
        "y = x.clone()",
        "if x[i] <= low:\n    y[i] = low\nelif x[i] > high:\n    y[i] = high",
        "y = torch.where(x <= low, low, torch.where(x > high, high, x))",
    ),
    "one bound that may be NaN": (
        "y = x.clone()",
        "if x[i] < low:\n    y[i] = low",
        "y = torch.where(x < low, low, x)",
    ),
    "another number than it was compared with": (
        "y = x.clone()",
        "if x[i] < low:\n    y[i] = high\nelif x[i] > high:\n    y[i] = low",
        "y = torch.where(x < low, high, torch.where(x > high, low, x))",
    ),
    "numbers in the wrong order": (
        "y = x.clone()",
        "if x[i] < 1:\n    y[i] = 1\nelif x[i] > -1:\n    y[i] = -1",
        "y = torch.where(x < 1, 1, torch.where(x > -1, -1, x))",
    ),
    "a sign": (
        "y = torch.zeros_like(x)",
        "if x[i] > 0:\n    y[i] = 1\nelif x[i] < 0:\n    y[i] = -1",
        "y = torch.where(x > 0, 1, torch.where(x < 0, -1, 0)).to(x)",
    ),
    "three ways, and a fourth": (
        "y = x.clone()",
        "if x[i] > 1:\n    y[i] = x[i] * 2\nelif x[i] > 0:\n    y[i] = 0\nelif x[i] < -1:\n    y[i] = high",
        "y = torch.where(x > 1, x * 2, torch.where(x > 0, 0, torch.where(x < -1, high, x)))",
    ),
    "another one in between": (
        "y, n = x.clone(), torch.zeros_like(x)",
        "if x[i] < low:\n    y[i] = low\n    n[i] = 1\nelif x[i] > high:\n    y[i] = high",
        None,
    ),
    "the copy is of what x was": (
        "y = x.clone()\nx[:1] = 3.0",
        "if x[i] < low:\n    y[i] = low\nelif x[i] > high:\n    y[i] = high",
        "y[...] = torch.where(x < low, low, y)\ny[...] = torch.where(~(x < low) & (x > high), high, y)",
    ),
    "x changes in the loop": (
        "y = x.clone()",
        "if i % 2:\n    y[i] = low\nelif i > 3:\n    y[i] = high\nx[i] = 0.0",
        None,
    ),
    "its neighbour is read": (
        "y = x.clone()",
        "if x[i] < low:\n    y[i] = x[i - 1]\nelif x[i] > high:\n    y[i] = high",
        None,
    ),
}


@pytest.mark.parametrize("name", NO_CLAMP)
def test_what_is_none_stays_a_choice(name):
    before, body, expected = NO_CLAMP[name]
    text = source_of(loop(before, body), "x, low, high")
    proposal = rewritten(text, [randn(7), -0.5, 0.5])
    assert expected is None or added_lines(proposal) == expected
    assert "clamp" not in proposal.new_text
    assert_same_at_hard_values(text, proposal.new_text)


def test_bounds_that_are_tensors_get_their_gradient():
    text = source_of(loop(*CLAMPED["elif"][:2]), "x, low, high")
    args = [randn(7), tensor(-0.5), tensor(0.5)]
    proposal = rewritten(text, args)
    assert added_lines(proposal) == f"y = {CHOICE}"
    for low, high in itertools.product((-0.5, 0.5, nan), repeat=2):
        assert_same(text, proposal.new_text, [tensor(HARD), tensor(low), tensor(high)])


def test_rows_and_columns_are_taken_at_once():
    body = """
        y = x.clone()
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                if x[i, j] < low[j]:
                    y[i, j] = low[j]
                elif x[i, j] > 1.0:
                    y[i, j] = 1.0
        return y.view(-1)
        """
    expected = "y = torch.where(x < low, low, torch.where(x > 1.0, 1.0, x))"
    assert_rewritten("x, low", lambda n, m: [randn(n, m), randn(m)], body, expected)


def test_what_is_clamped_in_place_keeps_its_gradient():
    body = "for i in range(len(x)):\n    if x[i] < 0:\n        x[i] = 0\nreturn x"
    expected = "x[...] = torch.where(x < 0, 0, x) if x.requires_grad else x.clamp(min=0)"
    assert_rewritten("x", lambda n, m: [randn(n)], body, expected)
