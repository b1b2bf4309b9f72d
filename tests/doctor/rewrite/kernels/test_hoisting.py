"""An array that a round makes is made once where no round sees another's; else it stays where it is."""

import ast
import textwrap

import numpy as np
import pytest

from gradwright.doctor.rewrite.kernels.hoisting import hoisted

MOVED = {
    "a row that is filled and read": """
        for t in range(x.shape[0]):
            row = np.empty(x.shape[1], x.dtype)
            for i in range(x.shape[1]):
                row[i] = x[t, i] * 2
            for i in range(x.shape[1]):
                y[t, i] = row[i] + row[0]
        """,
    "a table in an inner loop, under a condition": """
        for t in range(x.shape[0]):
            for k in range(2):
                if k == 1:
                    table = np.empty((x.shape[1], 3), x.dtype)
                    for i in range(x.shape[1]):
                        table[i, k] = x[t, i]
                        y[t, i] = table[i, k]
        """,
}
TAKING_TURNS = {
    "the state of a recurrence": """
        h = y[0]
        for t in range(x.shape[0]):
            new = np.empty(x.shape[1], x.dtype)
            for i in range(x.shape[1]):
                new[i] = h[x.shape[1] - 1 - i] + x[t, i]
            h = new
            for i in range(x.shape[1]):
                y[t, i] = h[i]
        """,
    "a state that changes twice in a round, or once, or not at all": """
        for t in range(x.shape[0]):
            for k in range(3):
                if k == 2 and t == 1:
                    continue
                new = np.empty(s.shape[0], s.dtype)
                for i in range(s.shape[0]):
                    new[i] = s[s.shape[0] - 1 - i] + x[t, i]
                s = new
                if t == 2:
                    break
                if t != 3:
                    again = np.empty(s.shape[0], s.dtype)
                    for i in range(s.shape[0]):
                        again[i] = 2 * s[(i + 1) % 3] - s[i]
                    s = again
            for i in range(x.shape[1]):
                y[t, i] = s[i]
        """,
    "a state that begins anew": """
        for t in range(x.shape[0]):
            h = x[t]
            for k in range(4):
                new = np.empty(x.shape[1], x.dtype)
                for i in range(x.shape[1]):
                    new[i] = h[(i + 1) % 3] + h[0]
                h = new
            for i in range(x.shape[1]):
                y[t, i] = h[i] + x[t, i]
        """,
}
LEFT = {
    "a state that another name still has": """
        h = x[0]
        for t in range(x.shape[0]):
            new = np.empty(x.shape[1], x.dtype)
            for i in range(x.shape[1]):
                new[i] = h[(i + 1) % 3] + x[t, i]
            if t == 0:
                first = h
            h = new
            for i in range(x.shape[1]):
                y[t, i] = h[i] + first[i]
        """,
    "a state of which a part has a name": """
        h = x[0]
        for t in range(x.shape[0]):
            new = np.empty(x.shape[1], x.dtype)
            for i in range(x.shape[1]):
                new[i] = h[(i + 1) % 3] + x[t, i]
            part = h[:2]
            h = new
            for i in range(2):
                y[t, i] = h[i] + part[i]
        """,
    "a state that is read by its first name too": """
        h = x[0]
        for t in range(x.shape[0]):
            new = np.empty(x.shape[1], x.dtype)
            for i in range(x.shape[1]):
                new[i] = h[(i + 1) % 3] + x[t, i]
            h = new
            for i in range(x.shape[1]):
                y[t, i] = new[i]
        """,
    "a state that another length takes the place of": """
        for t in range(x.shape[0]):
            new = np.empty(s.shape[0], s.dtype)
            for i in range(s.shape[0]):
                new[i] = s[i] + x[t, i]
            s = new
            shorter = np.empty(max(s.shape[0] - 1, 1), s.dtype)
            for i in range(max(s.shape[0] - 1, 1)):
                shorter[i] = s[i]
            s = shorter
            y[t, 0] = s[0]
        """,
    "a part of it has a name": """
        for t in range(x.shape[0]):
            table = np.empty((2, x.shape[1]), x.dtype)
            part = table[0]
            for i in range(x.shape[1]):
                part[i] = x[t, i]
                y[t, i] = part[i]
        """,
    "a stretch of it is taken": """
        for t in range(x.shape[0]):
            row = np.empty(x.shape[1], x.dtype)
            for i in range(x.shape[1]):
                row[i] = x[t, i]
            y[t] = row[:]
        """,
    "its length changes": """
        for t in range(x.shape[0]):
            row = np.empty(t + 1, x.dtype)
            row[t] = x[t, 0]
            y[t, 0] = row[t]
        """,
    "its length is of an array that is bound anew": """
        for t in range(x.shape[0]):
            x = x + 1
            row = np.empty(x.shape[1], x.dtype)
            row[0] = x[t, 0]
            y[t, 0] = row[0]
        """,
    "what the kernel was given is read before it is made": """
        for t in range(x.shape[0]):
            for i in range(x.shape[1]):
                y[t, i] = s[i]
            s = np.empty(x.shape[1], x.dtype)
            for i in range(x.shape[1]):
                s[i] = x[t, i]
        """,
    "it is made in two places": """
        for t in range(x.shape[0]):
            row = np.empty(x.shape[1], x.dtype)
            row[0] = x[t, 0]
            if t == 1:
                row = np.empty(x.shape[1], x.dtype)
                row[0] = 5
            y[t, 0] = row[0]
        """,
}


def run(statements):
    x, y = np.arange(12.0).reshape(4, 3), np.zeros((4, 3))
    names = {"np": np, "x": x, "y": y, "s": np.linspace(0, 1, 3)}
    exec(compile(ast.fix_missing_locations(ast.Module(statements, [])), "kernel", "exec"), names)
    np.testing.assert_array_equal(x, np.arange(12.0).reshape(4, 3))
    return y


def both(text, kept=()):
    body = ast.parse(textwrap.dedent(text)).body
    before = run(ast.parse(textwrap.dedent(text)).body)
    after = hoisted(body, ["x", "y", "s"], kept, str)
    np.testing.assert_array_equal(run(after), before)
    return after


@pytest.mark.parametrize("name", MOVED)
def test_an_array_of_a_round_alone_is_made_before_the_loop(name):
    first, *_ = both(MOVED[name])
    assert "np.empty" in ast.unparse(first) and isinstance(first, ast.Assign)


@pytest.mark.parametrize("name", TAKING_TURNS)
def test_two_arrays_take_turns_where_one_becomes_the_state_of_the_next_round(name):
    after = both(TAKING_TURNS[name])
    made = [one for one in after if isinstance(one, ast.Assign) and "np.empty" in ast.unparse(one)]
    loops = [one for one in after if isinstance(one, ast.For)]
    assert len(made) >= 2 and not any("np.empty" in ast.unparse(loop) for loop in loops)


@pytest.mark.parametrize("name", LEFT)
def test_an_array_that_another_round_may_see_or_whose_length_changes_stays(name):
    text = ast.unparse(ast.parse(textwrap.dedent(LEFT[name])))
    assert ast.unparse(ast.Module(both(LEFT[name]), [])) == text


def test_an_array_that_is_read_after_the_loop_stays():
    first, *_ = both(MOVED["a row that is filled and read"], kept=["row"])
    assert isinstance(first, ast.For)
