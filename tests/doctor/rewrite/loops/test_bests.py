"""The best as torch finds it, where nothing speaks against it: the loop's own way is behind an if, or comes alone."""

import pytest
import torch
from tests.doctor.rewrite.loops.rewriting import added_lines, assert_same, ran
from tests.doctor.rewrite.loops.test_extremes import VALUES, assert_everywhere_the_same, forms
from torch import randint, randn

SIZES = ((4, 3), (1, 1), (3, 0), (0, 2))
NAN_AT_FIRST = torch.tensor([float("nan"), 1.0, 3.0, 3.0, 2.0])
NAN_AT_LAST = torch.tensor([1.0, 3.0, 3.0, 2.0, float("nan")])

# name -> (signature, inputs for n and m, the function's body, the line that torch's own way begins with)
TAKEN = {
    "the place of the largest of every row": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        out = torch.zeros(x.shape[0], dtype=torch.long)
        for i in range(x.shape[0]):
            best = x[i, 0]
            for j in range(1, x.shape[1]):
                if x[i, j] > best:
                    best = x[i, j]
                    out[i] = j
        return out
        """,
        "highest, place = x.max(-1)",
    ),
    "the smallest of every column, and a place that begins elsewhere": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        low = torch.zeros_like(x[0])
        out = torch.full((x.shape[1],), 7)
        for j in range(x.shape[1]):
            best = x[0][j]
            at = -3
            for i in range(x.shape[0]):
                if best > x[i][j]:
                    best = x[i][j]
                    at = i
            low[j] = best
            out[j] = at
        return low, out
        """,
        "lowest, place = x.T.min(-1)",
    ),
    "along the middle axis": (
        "x",
        lambda n, m: [randn(n, m, 2)],
        """
        out = torch.zeros(x.shape[0], x.shape[2])
        for i in range(x.shape[0]):
            for k in range(x.shape[2]):
                best = x[i, 0, k]
                for j in range(1, x.shape[1]):
                    if x[i, j, k] > best:
                        best = x[i, j, k]
                out[i, k] = best
        return out
        """,
        "highest = x.transpose(1, 2).max(-1).values",
    ),
    "something else of the best of every row": (
        "x, y",
        lambda n, m: [randn(n, m), randn(n, m)],
        """
        out = torch.zeros(x.shape[0])
        for i in range(x.shape[0]):
            best, other = x[i, 0], y[i, 0]
            for j in range(1, x.shape[1]):
                if x[i, j] > best:
                    best = x[i, j]
                    other = y[i, j]
            out[i] = other
        return out
        """,
        "highest, place = x.max(-1)",
    ),
    "Python's numbers": (
        "x",
        lambda n, m: [randn(n)],
        """
        best, at = x[0].item(), 0
        for i in range(len(x)):
            if x[i].item() > best:
                best = x[i].item()
                at = i
        return best, at
        """,
        "highest, place = x.max(0)",
    ),
    "whole numbers, of which none is NaN": (
        "x",
        lambda n, m: [randint(0, 3, (n, m))],
        """
        out = torch.zeros(x.shape[0], dtype=torch.long)
        for i in range(x.shape[0]):
            best = x[i, 0]
            for j in range(1, x.shape[1]):
                if x[i, j] < best:
                    best = x[i, j]
                    out[i] = j
        return out + 0
        """,
        "out = x.argmin(-1).to(torch.empty(0, dtype=torch.long))",
    ),
    "Python's max": (
        "x",
        lambda n, m: [randn(n)],
        """
        best = x[0]
        for i in range(1, len(x)):
            best = max(best, x[i])
        return best
        """,
        "highest = x.max(0).values",
    ),
    "from infinity, where nothing may be better": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        out = torch.full((x.shape[0],), 5)
        for i in range(x.shape[0]):
            best = -float("inf")
            at = -1
            for j in range(x.shape[1]):
                if x[i, j] > best:
                    best = x[i, j]
                    at = j
            out[i] = at
        return out
        """,
        'highest, place = torch.nn.functional.pad(x, (1, 0), value=-float("inf")).max(-1)',
    ),
    "so far in every row": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        out = torch.zeros_like(x)
        for i in range(x.shape[0]):
            best = x[i, 0]
            for j in range(x.shape[1]):
                if x[i, j] > best:
                    best = x[i, j]
                out[i, j] = best
        return out
        """,
        "highest, place = x.cummax(1)",
    ),
    "so far in every column, from infinity": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        out = torch.zeros_like(x)
        for j in range(x.shape[1]):
            best = float("inf")
            for i in range(x.shape[0]):
                best = min(best, x[i, j])
                out[i, j] = best
        return out
        """,
        "lowest, place = x.T.cummin(1)",
    ),
    "so far, from the second one on": (
        "x",
        lambda n, m: [randn(n)],
        """
        out = x.clone()
        best = x[0]
        for i in range(1, x.shape[0]):
            if x[i] > best:
                best = x[i]
            out[i] = best
        return out
        """,
        "highest, place = x.cummax(0)",
    ),
    "so far, of Python's numbers": (
        "x",
        lambda n, m: [randn(n)],
        """
        out = torch.zeros_like(x)
        best = x[0].item()
        for i in range(x.shape[0]):
            if x[i].item() > best:
                best = x[i].item()
            out[i] = best
        return out
        """,
        "highest = x.cummax(0).values",
    ),
    "so far, of whole numbers": (
        "x",
        lambda n, m: [randint(0, 4, (n,))],
        """
        out = torch.zeros_like(x)
        best = x[0]
        for i in range(x.shape[0]):
            if x[i] < best:
                best = x[i]
            out[i] = best
        return out
        """,
        "out = x.cummin(0).values",
    ),
    "so far, kept twice and changed": (
        "x",
        lambda n, m: [randn(n)],
        """
        out = torch.zeros_like(x)
        other = torch.zeros_like(x)
        best = x[0]
        for i in range(x.shape[0]):
            if x[i] > best:
                best = x[i]
            out[i] = best
            other[i] = best
        out += 1
        return out, other
        """,
        "highest, place = x.cummax(0)",
    ),
}


@pytest.mark.parametrize("name", TAKEN)
def test_torch_finds_the_best_and_the_loop_is_asked_where_they_differ(name):
    *case, wanted = TAKEN[name]
    text, proposals = forms(*case)
    assert wanted in added_lines(proposals[-1]).replace("float('-inf')", '-float("inf")').split("\n")
    assert not proposals[-1].unsafe
    assert_everywhere_the_same(text, proposals[-1].new_text, case[1], SIZES)


# name -> (signature, inputs for n and m, the function's body, what must not come out)
NOT_TAKEN = {
    "an array that was another one when the best was set": (
        "x",
        lambda n, m: [randn(n)],
        """
        best = x[0]
        x = x * -2
        for i in range(1, len(x)):
            if x[i] > best:
                best = x[i]
        return best
        """,
        "x.max(0)",
    ),
    "an array that was written into since": (
        "x",
        lambda n, m: [randn(n)],
        """
        x = x.clone()
        best = x[0].item()
        at = 0
        x[0] = 3.0
        for i in range(1, len(x)):
            if x[i].item() > best:
                best = x[i].item()
                at = i
        return best, at
        """,
        "x.max(0)",
    ),
    "a row that was another one when the best was set": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        out = torch.zeros(x.shape[0])
        for i in range(x.shape[0]):
            row = x[i]
            best = row[0]
            row = row * -2
            for j in range(1, x.shape[1]):
                if row[j] > best:
                    best = row[j]
            out[i] = best
        return out
        """,
        "= (x * -2).max(-1)",
    ),
    "a row that may be empty though it has a first one": (
        "x",
        lambda n, m: [randn(n)],
        """
        best = x[0]
        for i in range(1, len(x) - 1):
            if x[i] > best:
                best = x[i]
        return best
        """,
        "x[:len(x) - 1].max(0)",
    ),
    "the last of equal ones": (
        "x",
        lambda n, m: [randn(n)],
        """
        best = x[0].item()
        for i in range(1, len(x)):
            if x[i].item() >= best:
                best = x[i].item()
        return best
        """,
        "= x.max(0)",
    ),
    "another element than the first": (
        "x",
        lambda n, m: [randn(n)],
        """
        best = x[1]
        at = 5
        for i in range(len(x)):
            if x[i] > best:
                best = x[i]
                at = i
        return best, at
        """,
        "= x.max(0)",
    ),
    "elements that begin with another one's": (
        "x",
        lambda n, m: [randn(n)],
        """
        out = torch.zeros_like(x)
        out[0] = x[-1]
        for i in range(1, len(x)):
            out[i] = max(out[i - 1], x[i])
        return out
        """,
        "x.cummax(0)",
    ),
    "elements that were written since they were given the first one": (
        "x",
        lambda n, m: [randn(n)],
        """
        out = torch.zeros_like(x)
        out[0] = x[0]
        out[0] = -2.0
        for i in range(1, len(x)):
            out[i] = max(out[i - 1], x[i])
        return out
        """,
        "x.cummax(0)",
    ),
    "elements in which the best is rounded": (
        "x",
        lambda n, m: [randn(n)],
        """
        out = torch.zeros(len(x))
        out[0] = x[0]
        for i in range(1, len(x)):
            out[i] = max(out[i - 1], x[i])
        return out
        """,
        "x.cummax(0)",
    ),
    "a best so far under a condition": (
        "x, y",
        lambda n, m: [randn(n), randn(n)],
        """
        out = torch.zeros_like(x)
        best = x[0]
        for i in range(x.shape[0]):
            if y[i] > 0 and x[i] > best:
                best = x[i]
            out[i] = best
        return out
        """,
        "x.cummax(0)",
    ),
}


@pytest.mark.parametrize("name", NOT_TAKEN)
def test_what_begins_otherwise_is_not_taken_for_the_first_of_its_row(name):
    *case, unwanted = NOT_TAKEN[name]
    text, proposals = forms(*case)
    assert unwanted not in added_lines(proposals[-1])
    assert_everywhere_the_same(text, proposals[-1].new_text, case[1], SIZES)


@pytest.mark.parametrize("name", ["the place of the largest of every row", "so far in every row"])
def test_rows_without_elements_raise_as_in_the_loop(name):
    *case, _ = TAKEN[name]
    text, proposals = forms(*case)
    for one in (text, proposals[-1].new_text):
        with pytest.raises(IndexError):
            ran(one, [randn(3, 0)], track=False)
        ran(one, [randn(0, 3)], track=False)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["Python's max", "so far, from the second one on"])
def test_a_single_nan_and_ties_are_as_in_the_loop_in_every_dtype(name, dtype):
    *case, _ = TAKEN[name]
    text, proposals = forms(*case)
    for numbers in (NAN_AT_FIRST, NAN_AT_LAST, NAN_AT_LAST[:-1], NAN_AT_FIRST.sort(descending=True).values):
        assert_same(text, proposals[-1].new_text, [numbers.to(dtype)])


def test_max_and_min_along_an_axis_give_the_first_of_equal_ones_and_of_nans():
    numbers = torch.tensor([0.0, 1.0, 2.0, float("inf"), float("nan")])
    rows = torch.cartesian_prod(*[numbers] * 4)
    for sign in (1, -1):
        highest, place = (rows * sign).max(-1)
        at = torch.where(highest.isnan()[:, None], rows.isnan(), rows * sign == highest[:, None])
        assert torch.equal(place, at.long().argmax(-1))
        assert torch.equal((rows * -sign).min(-1).indices, place)
        assert torch.equal((rows * sign).T.contiguous().max(0).indices, place)


def test_the_values_that_the_forms_are_tried_on_have_a_nan_an_infinity_and_ties():
    made = torch.cat([value(randn(6)) for value in VALUES])
    assert made.isnan().any() and made.isinf().any() and len(made.unique()) < len(made)
