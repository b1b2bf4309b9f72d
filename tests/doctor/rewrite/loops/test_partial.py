"""Where the outer loop carries something, it stays; what is inside is taken at once, with all that it reads."""

import pytest
import torch
from tests.doctor.rewrite.loops.rewriting import PATH, added_lines, assert_same, rewritten, seen_of, site_of, source_of

from gradwright.doctor.rewrite.loops import compile_inner, compile_loop
from gradwright.doctor.rewrite.source_text import DeclinedError, SourceText

BEST_PATH = """
score = torch.zeros(e.shape)
back = torch.zeros(e.shape, dtype=torch.long)
score[0] = e[0]
for t in range(1, e.shape[0]):
    for s in range(e.shape[1]):
        best = score[t - 1, 0] + m[0, s]
        arg = 0
        for r in range(1, e.shape[1]):
            value = score[t - 1, r] + m[r, s]
            if value > best:
                best = value
                arg = r
        score[t, s] = best + e[t, s]
        back[t, s] = {place}
return score, back
"""


@pytest.mark.parametrize("place", ["arg", "arg + 1", "s - arg"])
def test_a_place_that_is_found_in_a_kept_loop_is_stored_in_it(place):
    text = source_of(BEST_PATH.format(place=place), "e, m")
    torch.manual_seed(0)
    proposal = rewritten(text, (torch.randn(5, 4), torch.randn(4, 4)))
    assert "back[t] =" in added_lines(proposal)
    for steps, states in ((5, 4), (2, 1), (1, 3), (7, 2)):
        assert_same(text, proposal.new_text, (torch.randn(steps, states), torch.randn(states, states).round()))


def test_what_a_kept_loop_has_set_is_not_taken_for_what_it_was_before():
    body = """
    last = 0.0
    y = torch.zeros(len(x))
    z = torch.zeros(len(x))
    for t in range(1, len(x)):
        y[t] = y[t - 1] * x[t] + 1
        held = y[t] * 2
        z[t] = held + x[t]
    return y, z
    """
    text = source_of(body, "x")
    try:
        proposal = rewritten(text, (torch.randn(6),))
    except DeclinedError:
        return
    assert_same(text, proposal.new_text, (torch.randn(6),))


CARRIED = {
    "from a number, against the order of the text": (
        """
        T, N = r.shape
        out = torch.zeros(T, N)
        for n in range(N):
            last = 0.0
            for t in range(T - 1, -1, -1):
                delta = r[t, n] - y[n]
                last = delta + 0.9 * last
                out[t, n] = last
        return out
        """,
        """
        last = r.new_zeros(N)
        for t in range(T - 1, -1, -1):
        last = r[t] - y + 0.9 * last
        out[t] = last
        """,
    ),
    "from an element, to an element": (
        """
        T, N = r.shape
        out = torch.zeros(N)
        for n in range(N):
            last = r[0, n]
            for t in range(1, T):
                last = torch.tanh(last) + r[t, n] * y[n]
            out[n] = last
        return out
        """,
        """
        last = r[0]
        for t in range(1, T):
        last = torch.tanh(last) + r[t] * y
        out[...] = last
        """,
    ),
}


@pytest.mark.parametrize(("body", "expected"), CARRIED.values(), ids=CARRIED.keys())
def test_what_goes_from_round_to_round_is_a_row_of_all_that_is_taken_at_once(body, expected):
    text = source_of(body, "r, y")
    torch.manual_seed(0)
    proposal = rewritten(text, (torch.randn(5, 3), torch.randn(3)))
    assert added_lines(proposal).splitlines() == [line.strip() for line in expected.strip().splitlines()]
    for steps, columns in ((5, 3), (1, 1), (2, 4)):
        assert_same(text, proposal.new_text, (torch.randn(steps, columns), torch.randn(columns)))


def test_what_is_of_another_shape_in_every_round_is_declined():
    body = """
    out = torch.zeros(r.shape[1])
    for n in range(r.shape[1]):
        last = 0.0
        for t in range(r.shape[0]):
            last = torch.cat((torch.atleast_1d(torch.as_tensor(last)), r[t, n : n + 1]))
        out[n] = last.sum()
    return out
    """
    with pytest.raises(DeclinedError):
        rewritten(source_of(body, "r"), (torch.randn(4, 3),))


CELL = """
h = torch.zeros(u.shape[0])
states = []
for t in range(x.shape[0]):
    new = torch.zeros(u.shape[0])
    for i in range(u.shape[0]):
        s = 0.0
        for j in range(x.shape[1]):
            s = s + w[i, j] * x[t, j]
        for j in range(u.shape[0]):
            s = s + u[i, j] * h[j]
        new[i] = torch.tanh(s)  # one unit
    h = new
    states.append(h)
return torch.stack(states)
"""


def test_the_loops_inside_a_loop_that_stays_are_taken_at_once():
    text = source_of(CELL, "x, w, u")
    torch.manual_seed(0)
    args = (torch.randn(4, 3), torch.randn(5, 3), torch.randn(5, 5))
    site = site_of(text)
    seen = seen_of(text, site, args)
    with pytest.raises(DeclinedError):
        compile_loop(SourceText(PATH, text), site, seen)
    (proposal,) = compile_inner(SourceText(PATH, text), site, seen)
    assert added_lines(proposal).splitlines() == [
        "s = w @ x[t]",
        "s = s + u[:, :u.shape[0]] @ h[:u.shape[0]]",
        "new = torch.tanh(s).to(torch.empty(0), copy=True)  # one unit",
    ]
    first, last = proposal.region
    lines = proposal.new_text.splitlines()
    assert lines[first - 1].strip() == "for t in range(x.shape[0]):" and lines[last - 1].strip().startswith("return")
    for steps, width, units in ((4, 3, 5), (1, 1, 1), (2, 4, 3)):
        mine = (torch.randn(steps, width), torch.randn(units, width), torch.randn(units, units))
        assert_same(text, proposal.new_text, mine)


def test_a_loop_without_loops_has_none_inside():
    text = source_of("s = 0.0\nfor i in range(len(x)):\n    s = torch.tanh(s + x[i])\nreturn s", "x")
    site = site_of(text)
    with pytest.raises(DeclinedError, match="no loop inside"):
        compile_inner(SourceText(PATH, text), site, seen_of(text, site, (torch.randn(3),)))
