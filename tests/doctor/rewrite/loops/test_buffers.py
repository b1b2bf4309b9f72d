"""A buffer that is wholly overwritten is not made, unless somebody could tell."""

import pytest
import torch
from tests.doctor.rewrite.loops.rewriting import added_lines, assert_rewritten, assert_same, ran, rewritten, source_of
from torch import randn

OUTER = """
out = {made}
for i in range(len(a)):
    for j in range(len(b)):
        out[i, j] = a[i] * b[j]
return out
"""


def vectors(n, m):
    return [randn(n), randn(m)]


def one(n, m):
    return [randn(n)]


# how the buffer is made -> what comes out
DROPPED = {
    "torch.zeros(len(a), len(b))": "out = (a[:, None] * b).to(torch.empty(0))",
    "torch.empty((len(a), len(b)), dtype=torch.float64)": (
        "out = (a[:, None] * b).to(torch.empty(0, dtype=torch.float64))"
    ),
    "torch.ones(len(a), len(b), dtype=torch.long)": "out = (a[:, None] * b).to(torch.empty(0, dtype=torch.long))",
    "torch.zeros(len(a), len(b), device=b.device)": "out = (a[:, None] * b).to(torch.empty(0, device=b.device))",
    "torch.full((len(a), len(b)), 0)": "out = (a[:, None] * b).to(torch.full((0,), 0))",
    "torch.full((len(a), len(b)), 2.5, dtype=b.dtype)": "out = a[:, None] * b",
    "b.new_zeros(len(a), len(b), dtype=torch.half)": "out = (a[:, None] * b).to(b.new_empty(0, dtype=torch.half))",
    "a.new_zeros(len(a), len(b))": "out = a[:, None] * b",
}


@pytest.mark.parametrize("made", DROPPED)
def test_the_value_takes_the_buffers_place_with_its_dtype_and_device(made):
    assert_rewritten("a, b", vectors, OUTER.format(made=made), DROPPED[made])


KEPT = (
    "torch.zeros(len(a), len(b), requires_grad=False)",
    "torch.zeros(len(a), len(b), dtype=kind())",
    "torch.full((len(a), len(b)), start)",
    "torch.zeros(len(a), len(b) + 1)",
    "torch.rand(len(a), len(b))",
)


@pytest.mark.parametrize("made", KEPT)
def test_a_buffer_of_which_more_is_asked_is_still_made(made):
    text = source_of(f"start, kind = 1.0, lambda: torch.float64\n{OUTER.format(made=made)}", "a, b")
    args = vectors(3, 4)
    proposal = rewritten(text, args)
    assert made in proposal.new_text
    torch.manual_seed(0)
    mine = ran(text, args, track=False)[1]
    torch.manual_seed(0)
    torch.testing.assert_close(ran(proposal.new_text, args, track=False)[1], mine)


def filled(value, rest="return out"):
    return f"out = torch.zeros(len(x))\nfor i in range(len(x)):\n    out[i] = {value}\n{rest}"


# name -> (the body, what comes out)
SEEN_BY_OTHERS = {
    "written later": (filled("x[i] * 2", "out[0] = 1\nreturn out"), "out[...] = x * 2"),
    "added to in the loop": (
        filled("x[i] * 2", "    out[i] += x[i].double()\nreturn out"),
        "out[...] = x * 2\nout += x.double()",
    ),
    "its shape asked for": (
        filled("x[i] * 2").replace("\nfor i in range(len(x))", "\nn = out.shape[0]\nfor i in range(n)"),
        "out[...] = x * 2",
    ),
}


@pytest.mark.parametrize("name", SEEN_BY_OTHERS)
def test_a_buffer_that_somebody_could_miss_is_still_made(name):
    body, expected = SEEN_BY_OTHERS[name]
    assert_rewritten("x", one, body, expected)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("torch.exp(x[i])", "out = torch.exp(x).to(torch.empty(0), copy=True)"),
        ("x[i]", "out = x.to(torch.empty(0), copy=True)"),
        ("abs(x[i])", "out = abs(x).to(torch.empty(0))"),
    ],
)
def test_what_is_somebody_elses_is_copied(value, expected):
    assert_rewritten("x", one, filled(value), expected)
    after = rewritten(source_of(filled(value), "x"), one(3, 0)).new_text
    written = after.replace("return out", "other = out\n    other += 1\n    return other")
    assert_same(source_of(filled(value, "return out + 1"), "x"), written, one(3, 0))


def test_what_has_another_shape_in_one_of_two_cases_is_written_into_the_buffer():
    expected = "out[...] = x * 2 if len(x) > 3 else s"
    assert_rewritten("x, s", lambda n, m: [randn(n), randn(())], filled("x[i] * 2 if len(x) > 3 else s"), expected)


def test_a_row_of_one_element_is_written_all_over_the_row():
    body = "out = torch.zeros_like(x)\nfor i in range(len(x)):\n    out[i] = x[i, :1] * 2\nreturn out"
    assert_rewritten("x", lambda n, m: [randn(n, m + 1)], body, "out[...] = x[:, :1] * 2")


def test_the_result_lies_as_densely_as_the_buffer_did_even_where_the_input_does_not():
    body = """
        out = {made}
        for row in range(len(x)):
            for col in range(x.shape[1]):
                out[row, col] = 2 * x[row, col]
        return out
        """
    for made in ("torch.zeros(x.shape)", "x.new_zeros(x.shape)", "torch.zeros_like(x)"):
        text = source_of(body.format(made=made), "x")
        after = rewritten(text, [randn(3, 4)]).new_text
        assert made not in after
        for x in (randn(3, 4), randn(4, 3).t()):
            ((before,), (new,)) = (ran(one, [x], track=False)[1] for one in (text, after))
            assert new.stride() == before.stride()


def test_the_result_may_be_written_into_before_the_backward():
    text = source_of(OUTER.format(made="torch.zeros(len(a), len(b))"), "a, b")
    args = vectors(3, 2)
    proposal = rewritten(text, args)
    assert "torch.zeros" not in proposal.new_text
    changed = proposal.new_text.replace("return out", "other = out\n    other.mul_(2)\n    return other")
    assert_same(text.replace("return out", "return out * 2"), changed, args)


def test_a_buffer_of_random_numbers_draws_them_all_the_same():
    body = "out = torch.rand_like(x)\nfor i in range(len(x)):\n    out[i] = x[i] * 2\nreturn out + torch.rand(1)"
    text = source_of(body, "x")
    after = rewritten(text, [randn(3)]).new_text
    results = []
    for one_text in (text, after):
        torch.manual_seed(0)
        results.append(ran(one_text, [torch.ones(3)], track=False)[1])
    torch.testing.assert_close(*results)


def test_integers_that_a_float_has_no_digits_for_stay_what_they_are():
    body = "y = x.clone()\nfor i in range(len(x)):\n    if x[i] < low:\n        y[i] = low\nreturn y"
    with pytest.raises(Exception, match="fewer digits"):
        rewritten(source_of(body, "x, low"), [torch.tensor([1, 2**24 + 1]), 1.5])
    text = source_of(body, "x, low")
    args = [torch.tensor([1, 2**24 + 1, 2**53 + 1]), 2]
    proposal = rewritten(text, args)
    assert "x.clamp" in added_lines(proposal) or "torch.where" in added_lines(proposal)
    assert_same(text, proposal.new_text, args)


def test_numbers_keep_their_digits_in_float64():
    for value in ("0.1 if x[i] > 0 else 0.3", "low if x[i] > 0 else 0.5"):
        text = source_of(filled(value).replace("len(x))\nfor", "len(x), dtype=torch.float64)\nfor"), "x, low")
        args = [randn(5, dtype=torch.float64), 0.7]
        proposal = rewritten(text, args)
        before, after = (ran(one_text, args, track=False)[1] for one_text in (text, proposal.new_text))
        assert torch.equal(before[0], after[0]) and "for i" not in proposal.new_text
