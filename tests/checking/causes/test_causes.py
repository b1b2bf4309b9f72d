"""Each cause is named where it was planted, whether autograd sees the forward or only differences do; no other is."""

import pytest
import torch

import gradwright as gw
from gradwright.checking.causes import all_fits


def planted(forward, spoil, opaque=False):
    """A Function whose backward returns ``spoil(true, cotangents, inputs)``; ``true(cotangents)`` lists the truth."""

    def run(ctx, *inputs):
        ctx.save_for_backward(*inputs)
        return forward(*(item.detach() for item in inputs)) if opaque else forward(*inputs)

    def back(ctx, *cotangents):
        inputs = [item.detach().requires_grad_() for item in ctx.saved_tensors]
        with torch.enable_grad():
            result = forward(*inputs)
        outputs = result if isinstance(result, tuple) else (result,)

        def true(*given):
            return list(torch.autograd.grad(outputs, inputs, [c.to(y) for c, y in zip(given, outputs, strict=True)]))

        found = spoil(true, cotangents, [item.detach() for item in inputs])
        return found if isinstance(found, torch.Tensor) or found is None else tuple(found)

    return type("Planted", (torch.autograd.Function,), {"forward": staticmethod(run), "backward": staticmethod(back)})


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def of_gradient(change):
    return lambda true, g, xs: [change(true(*g)[0], xs[0])]


def of_cotangent(change):
    return lambda true, g, xs: true(*(change(one) for one in g))


def _without(gradient, entry):
    return gradient * (torch.arange(gradient.numel()).view_as(gradient) != entry)


WAVE, TABLE = (lambda x: x.sin() * x), draw(6, 5)
CAUSES = {
    "1.7 times": (WAVE, of_gradient(lambda t, x: 1.7 * t), "constant factor"),
    "0.05 % too much": (WAVE, of_gradient(lambda t, x: 1.0005 * t), "constant factor"),
    "a millionth too much": (WAVE, of_gradient(lambda t, x: (1 + 1e-6) * t), "constant factor"),
    "minus": (WAVE, of_gradient(lambda t, x: -t), "sign"),
    "a sum's": (lambda x: x.square().mean(), of_gradient(lambda t, x: t * x.numel()), "sum for mean"),
    "a mean's": (lambda x: x.exp().sum(-1), of_gradient(lambda t, x: t / x.shape[-1]), "sum for mean"),
    "half": (lambda x: x.exp().sum(0), of_gradient(lambda t, x: t / 2), "constant factor"),
    "of ones": (WAVE, of_cotangent(torch.ones_like), "missing grad_output"),
    "of the cotangent's size": (WAVE, of_cotangent(torch.abs), "nonlinear in the cotangent"),
    "of its sign": (WAVE, of_cotangent(torch.sign), "nonlinear in the cotangent"),
    "of its square": (WAVE, of_cotangent(torch.square), "nonlinear in the cotangent"),
    "of it clamped": (WAVE, of_cotangent(lambda g: g.clamp(-1, 1)), "nonlinear in the cotangent"),
    "transposed": (WAVE, of_gradient(lambda t, x: t.T.reshape(t.shape)), "transpose"),
    "flipped": (WAVE, of_gradient(lambda t, x: t.flip(1)), "permutation"),
    "rolled": (WAVE, of_gradient(lambda t, x: t.flatten().roll(1).view_as(t)), "permutation"),
    "shuffled": (WAVE, of_gradient(lambda t, x: t.flatten()[_order(t.numel())].view_as(t)), "permutation"),
    "of a flipped cotangent": (WAVE, of_cotangent(lambda g: g.flip(1)), "permutation"),
    "zeros": (WAVE, of_gradient(lambda t, x: 0 * t), "dropped term"),
    "None": (WAVE, lambda true, g, xs: None, "dropped term"),
    "without the cotangent": (WAVE, lambda true, g, xs: [true(*g)[0] - g[0]], "dropped term"),
    "one output's": (lambda x: (x.sin(), x.exp()), lambda true, g, xs: true(g[0], 0 * g[1]), "dropped term"),
    "more": (WAVE, of_gradient(lambda t, x: t + 1e-3), "additive offset"),
    "below zero, zero": (WAVE, of_gradient(lambda t, x: t * (x >= 0)), "region"),
    "beyond one, twice": (WAVE, of_gradient(lambda t, x: torch.where(x.abs() > 1, 2 * t, t)), "region"),
    "one element": (WAVE, of_gradient(lambda t, x: _without(t, 11)), "region"),
    "the last column": (WAVE, of_gradient(lambda t, x: torch.cat([t[:, :-1], 0 * t[:, -1:]], 1)), "region"),
    "rows averaged": (WAVE, of_gradient(lambda t, x: t.mean(0, keepdim=True).expand_as(t)), "batch rows mixed"),
    "rows added": (WAVE, of_gradient(lambda t, x: t + 0.3 * t.roll(1, 0)), "batch rows mixed"),
    "rounded to float32": (WAVE, of_gradient(lambda t, x: t.float().double()), "precision lost"),
    "float32 inside": (WAVE, of_cotangent(lambda g: g.float().double()), "precision lost"),
    "bfloat16 inside": (WAVE, of_cotangent(lambda g: g.bfloat16().double()), "precision lost"),
    "with noise": (WAVE, of_gradient(lambda t, x: t * (1 + 0.1 * torch.rand_like(t))), "nondeterminism"),
    "by no rule": (WAVE, of_gradient(lambda t, x: t * (1 + 0.1 * x)), "formula"),
}  # fmt: skip


def _order(count):
    return torch.randperm(count, generator=torch.Generator().manual_seed(1))


def found_by_value(subject, *inputs):
    report = gw.check(subject, *inputs, level="quick")
    return [finding for finding in report.findings if finding.code in ("GW101", "GW102")]


@pytest.mark.parametrize("opaque", [False, True], ids=["transparent", "opaque"])
@pytest.mark.parametrize("case", CAUSES)
def test_the_planted_cause_is_named(case, opaque):
    forward, spoil, cause = CAUSES[case]
    if case == "a millionth too much" and opaque:
        pytest.skip("differences of an opaque forward don't see it")
    (finding,) = found_by_value(planted(forward, spoil, opaque), TABLE)
    assert (finding.code, finding.cause) == ("GW101", cause)
    assert finding.do


@pytest.mark.parametrize("opaque", [False, True], ids=["transparent", "opaque"])
@pytest.mark.parametrize("forward", [WAVE, torch.relu, lambda x: x.softmax(-1), lambda x: x.square().mean()])
def test_what_was_not_spoiled_has_no_cause(forward, opaque):
    assert not found_by_value(planted(forward, lambda true, g, xs: true(*g), opaque), TABLE)


@pytest.mark.parametrize("opaque", [False, True], ids=["transparent", "opaque"])
def test_gradients_of_two_inputs_that_are_swapped_are_told(opaque):
    swapped = planted(lambda a, b: a.sin() * b, lambda true, g, xs: true(*g)[::-1], opaque)
    assert [finding.cause for finding in found_by_value(swapped, draw(3, 4), draw(3, 4, seed=1))] == [
        "swapped inputs"
    ] * 2


@pytest.mark.parametrize(
    ("spoil", "cause"),
    [
        (lambda n, t: t * (1.5 if n % 2 else 1), "state kept between calls"),
        (lambda n, t: t * (1 + 0.01 * n), "state kept between calls"),
        (lambda n, t: t * (1 + 0.1 * torch.rand(t.shape, generator=GENERATOR, dtype=t.dtype)), "nondeterminism"),
    ],
    ids=["in turns", "drifting", "a generator of its own"],
)
def test_gradients_that_differ_from_call_to_call_are_told_as_such(spoil, cause):
    calls = [0]

    def spoiled(true, g, xs):
        calls[0] += 1
        return [spoil(calls[0], true(*g)[0])]

    (finding,) = found_by_value(planted(WAVE, spoiled), TABLE)
    assert finding.cause == cause


GENERATOR: torch.Generator = torch.Generator()


# --- regions ---------------------------------------------------------------------------------------------------------

REGIONS = {
    "x < 0": (lambda x: x < 0, 0.0, "zero"),
    "x > 0": (lambda x: x > 0, 2.0, "2 times"),
    "|x| > 1": (lambda x: x.abs() > 1, -1.0, "the sign is wrong"),
    "|x| < 0.5": (lambda x: x.abs() < 0.5, 3.0, "3 times"),
    "x > 0.75": (lambda x: x > 0.75, 0.5, "0.5 times"),
    "one element": (lambda x: torch.arange(x.numel()).view_as(x) == 8, 0.0, "zero"),
    "last row": (lambda x: torch.arange(x.shape[0])[:, None].expand_as(x) == x.shape[0] - 1, 0.0, "zero"),
    "first column": (lambda x: torch.arange(x.shape[1]).expand_as(x) == 0, 0.0, "zero"),
}


@pytest.mark.parametrize("opaque", [False, True], ids=["transparent", "opaque"])
@pytest.mark.parametrize("region", REGIONS)
def test_the_region_is_named_and_what_is_returned_there(region, opaque):
    inside, factor, words = REGIONS[region]
    spoil = of_gradient(lambda t, x: torch.where(inside(x), factor * t, t))
    (finding,) = found_by_value(planted(torch.sinh, spoil, opaque), draw(7, 6, seed=3))
    assert (finding.cause, finding.evidence["inside"]) == ("region", words)
    told = finding.evidence["region"]
    if any(digit in region for digit in "123456789"):
        told, threshold = told.rsplit(" ", 1)
        assert float(threshold) == pytest.approx(float(region.rsplit(" ", 1)[1]), abs=1e-3 if not opaque else 0.1)
        region = region.rsplit(" ", 1)[0]
    assert told == region


@pytest.mark.parametrize("opaque", [False, True], ids=["transparent", "opaque"])
def test_one_fault_among_a_thousand_is_found_and_placed(opaque):
    spoil = of_gradient(lambda t, x: torch.where(torch.arange(x.numel()).view_as(x) == 617, 1.2 * t, t))
    (finding,) = found_by_value(planted(torch.sin, spoil, opaque), draw(25, 40))
    assert (finding.evidence["at"], finding.evidence["region"]) == ((617 // 40, 617 % 40), "one element")


def test_ties_are_a_region():
    x = draw(4, 5)
    x[1, 2] = x[3, 3] = x[0, 0]

    def wrong_at_ties(t, x):
        repeated = (x.flatten()[:, None] == x.flatten()).sum(1).view_as(x) > 1
        return torch.where(repeated, 2 * t, t)

    (finding,) = found_by_value(planted(torch.sin, of_gradient(wrong_at_ties)), x)
    assert finding.evidence["region"] == "ties"


# --- factors ---------------------------------------------------------------------------------------------------------


def test_a_factor_of_a_size_is_told_from_a_constant_by_trying_another_size():
    size = planted(lambda x: x.square().sum(), of_gradient(lambda t, x: t / 6))
    constant, mean = found_by_value(size, draw(6)), found_by_value(size, draw(7))
    assert [finding.cause for finding in constant + mean] == ["constant factor"] * 2
    by_size = planted(lambda x: x.square().sum(), of_gradient(lambda t, x: t / x.numel()))
    assert [finding.cause for finding in found_by_value(by_size, draw(6))] == ["sum for mean"]


def test_a_factor_that_only_holds_at_this_point_is_a_formula():
    forgotten = planted(lambda x: x.norm(), lambda true, g, xs: [g[0] * xs[0]])
    assert [finding.cause for finding in found_by_value(forgotten, draw(9))] == ["formula"]


def test_a_term_of_the_product_rule_is_found_missing_in_the_forwards_own_graph():
    product = planted(lambda x: x * x.exp(), lambda true, g, xs: [g[0] * xs[0].exp()])
    (finding,) = found_by_value(product, draw(8))
    assert (finding.cause, finding.evidence["dropped"]) == ("dropped term", "exp")


def test_a_matrix_that_should_have_been_transposed_is_told():
    weight = planted(lambda x, w: x @ w, lambda true, g, xs: (g[0] @ xs[1], xs[0].T @ g[0]))
    assert [finding.cause for finding in found_by_value(weight, draw(4, 4), draw(4, 4, seed=1))] == ["transpose"]


def test_an_error_in_float64_arithmetic_below_a_billionth_is_right():
    assert not found_by_value(planted(WAVE, of_gradient(lambda t, x: (t * 3 + 1e-13) / 3)), TABLE)


def test_a_forward_in_float32_asks_for_no_more_than_float32():
    narrow = planted(lambda x: x.float().exp().to(x.dtype), lambda true, g, xs: [g[0] * xs[0].exp()])
    assert not found_by_value(narrow, TABLE)


def test_a_solver_that_stops_at_a_tolerance_has_not_lost_precision():
    def solved(true, g, xs):
        return [true(*g)[0] * (1 + 3e-7 * torch.sin(1e6 * g[0]))]

    assert not found_by_value(planted(WAVE, solved), TABLE)


def test_every_explanation_is_found_in_a_file_of_its_own():
    orders = [one.order for one in all_fits()]
    assert orders == sorted(set(orders))
    assert len(orders) >= 16
