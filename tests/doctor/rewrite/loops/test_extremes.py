"""The best one, and the best so far: ties, NaN, no iteration and nothing better are as in the loop."""

import pytest
import torch
from tests.doctor.rewrite.loops.rewriting import PATH, added_lines, assert_same, ran, seen_of, site_of, source_of
from torch import rand, randn

from gradwright.doctor.rewrite.loops import compile_loop
from gradwright.doctor.rewrite.source_text import DeclinedError, SourceText

INF = float("inf")


def forms(signature, inputs, body):
    """The text and what it may become, best first."""
    text = source_of(body, signature)
    torch.manual_seed(0)
    args = inputs(4, 3)
    site = site_of(text)
    return text, compile_loop(SourceText(PATH, text), site, seen_of(text, site, args))


def planted(*numbers):
    def make(x):
        flat = x.flatten().clone()
        for start, number in enumerate(numbers):
            flat[start :: len(numbers) + 1] = number
        return flat.view(x.shape)

    return make


VALUES = (
    lambda x: x,
    torch.round,
    torch.ones_like,
    torch.zeros_like,
    planted(float("nan")),
    planted(INF, float("nan")),
    planted(-INF),
    lambda x: torch.full_like(x, float("nan")),
)


def assert_everywhere_the_same(text, changed, inputs, sizes=((7, 5), (1, 1), (3, 0), (0, 2))):
    for n, m in sizes:
        for value in VALUES:
            torch.manual_seed(n)
            args = [value(one) if torch.is_tensor(one) and one.is_floating_point() else one for one in inputs(n, m)]
            try:
                ran(text, args, track=True)
            except (IndexError, RuntimeError, ValueError):
                continue
            assert_same(text, changed, args)


# name -> (signature, inputs for n and m, the function's body, what comes out)
CASES = {
    "from a number, with its place": (
        "x",
        lambda n, m: [randn(n)],
        """
        best = 0.5
        at = -1
        for i in range(len(x)):
            if x[i] > best:
                best = x[i]
                at = i
        return best, at
        """,
        (
            "highest, place = torch.nn.functional.pad(x, (1, 0), value=0.5).max(0)\n"
            "if highest.isnan():  # NaN wins in torch, never in the loop\n"
            "highest, place = torch.nn.functional.pad(torch.where(x > 0.5, x, 0.5), (1, 0), value=0.5).max(0)\n"
            "best = highest\n"
            "at = (place - 1).item()"
        ),
    ),
    "from a tensor": (
        "x, y",
        lambda n, m: [randn(n), randn(())],
        """
        best = y
        for v in x:
            best = min(best, v)
        return best
        """,
        (
            "lowest = torch.cat((best[None], x)).min(0).values\n"
            "if lowest.isnan():  # NaN wins in torch, never in the loop\n"
            "lowest = torch.cat((best[None], torch.where(x < best, x, best))).min(0).values\n"
            "best = lowest"
        ),
    ),
    "from infinity": (
        "x",
        lambda n, m: [randn(n)],
        """
        best, at = float('inf'), -1
        for i in range(len(x)):
            if x[i].item() < best:
                best = x[i].item()
                at = i
        return best, at
        """,
        (
            "lowest, place = torch.nn.functional.pad(x, (1, 0), value=float('inf')).min(0)\n"
            "if lowest.isnan():  # NaN wins in torch, never in the loop\n"
            "part = torch.where(x < float('inf'), x, float('inf'))\n"
            "lowest, place = torch.nn.functional.pad(part, (1, 0), value=float('inf')).min(0)\n"
            "best = lowest.item()\n"
            "at = (place - 1).item()"
        ),
    ),
    "under a condition": (
        "x, y",
        lambda n, m: [randn(n), randn(n)],
        """
        best = -1.0
        at = 0
        for i in range(len(x)):
            if y[i] > 0 and x[i] > best:
                best = x[i]
                at = i
        return best, at
        """,
        (
            "candidates = torch.nn.functional.pad(torch.where((y > 0) & (x > -1.0), x, -1.0), (1, 0), value=-1.0)\n"
            "best = candidates.max(0).values\n"
            "at = (candidates.argmax() - 1).clamp(min=0).item()"
        ),
    ),
    "with a number of its iteration, from the end": (
        "x, y",
        lambda n, m: [randn(n), randn(n)],
        """
        best = 0.0
        other = 0.0
        for i in range(len(x) - 1, -1, -1):
            if x[i] > best:
                best = x[i]
                other = y[i] * 2
        return best, other
        """,
        (
            "highest, place = torch.nn.functional.pad(x.flip(0), (1, 0), value=0.0).max(0)\n"
            "if highest.isnan():  # NaN wins in torch, never in the loop\n"
            "highest, place = torch.nn.functional.pad(torch.where(x > 0.0, x, 0.0).flip(0), (1, 0), value=0.0).max(0)\n"
            "best = highest\n"
            "other = torch.nn.functional.pad((y[:len(x)] * 2).flip(0), (1, 0), value=0.0)[place]"
        ),
    ),
    "over two loops": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        best = -0.5
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                if x[i, j] > best:
                    best = x[i, j]
        return best
        """,
        (
            "highest = torch.nn.functional.pad(x.flatten(0), (1, 0), value=-0.5).max(0).values\n"
            "if highest.isnan():  # NaN wins in torch, never in the loop\n"
            "terms = torch.nn.functional.pad(torch.where(x > -0.5, x, -0.5).flatten(0), (1, 0), value=-0.5)\n"
            "highest = terms.max(0).values\n"
            "best = highest"
        ),
    ),
    "the nearest, its place in an array": (
        "X, C",
        lambda n, m: [randn(n, 2), randn(m, 2)],
        """
        labels = torch.zeros(len(X), dtype=torch.long)
        for i in range(len(X)):
            best = float("inf")
            for k in range(len(C)):
                d = torch.sum((X[i] - C[k]) ** 2).item()
                if d < best:
                    best = d
                    labels[i] = k
        return labels
        """,
        (
            "terms = torch.nn.functional.pad(torch.sum((X[:, None] - C) ** 2, -1), (1, 0), value=float('inf'))\n"
            "lowest, place = terms.min(-1)\n"
            "if lowest.isnan().any():  # NaN wins in torch, never in the loop\n"
            "part = torch.sum((X[:, None] - C) ** 2, -1)\n"
            "part_2 = torch.where(part < float('inf'), part, float('inf'))\n"
            "lowest, place = torch.nn.functional.pad(part_2, (1, 0), value=float('inf')).min(-1)\n"
            "labels = (place - 1).clamp(min=0).to(torch.empty(0, dtype=torch.long))"
        ),
    ),
    "both in arrays": (
        "x, near, labels",
        lambda n, m: [randn(n, m), randn(n), torch.full((n,), 7)],
        """
        for i in range(x.shape[0]):
            for k in range(x.shape[1]):
                if x[i, k] < near[i]:
                    near[i] = x[i, k]
                    labels[i] = k
        return labels * 1
        """,
        (
            "lowest, place = torch.cat((near[:x.shape[0]][:, None], x), -1).min(-1)\n"
            "if lowest.isnan().any():  # NaN wins in torch, never in the loop\n"
            "part = torch.where(x < near[:x.shape[0], None], x, near[:x.shape[0], None])\n"
            "lowest, place = torch.cat((near[:x.shape[0]][:, None], part), -1).min(-1)\n"
            "near[:x.shape[0]] = lowest\n"
            "labels[:x.shape[0]] = torch.where(place > 0, place - 1, labels[:x.shape[0]])"
        ),
    ),
    "of every row": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        out = torch.full((x.shape[0],), float('-inf'))
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                out[i] = max(out[i], x[i, j])
        return out
        """,
        (
            "highest = torch.cat((out[:, None], x), -1).max(-1).values\n"
            "if highest.isnan().any():  # NaN wins in torch, never in the loop\n"
            "highest = torch.cat((out[:, None], torch.where(x > out[:, None], x, out[:, None])), -1).max(-1).values\n"
            "out[...] = highest"
        ),
    ),
    "so far": (
        "x",
        lambda n, m: [randn(n)],
        """
        m = x[0]
        out = torch.zeros_like(x)
        for i in range(len(x)):
            m = max(m, x[i])
            out[i] = m
        return out
        """,
        (
            "highest, place = x.cummax(0)\n"
            "if not torch.equal(highest[1:] > highest[:-1], place[1:] != place[:-1]):  # equal ones, or NaN\n"
            "candidates = torch.where(x > m, x, m)\n"
            "highest, place = candidates.cummax(0)\n"
            "place[1:] *= highest[1:] > highest[:-1]\n"
            "highest = candidates.gather(0, place.cummax(0).values)\n"
            "out = highest"
        ),
    ),
    "so far, of Python's numbers": (
        "x",
        lambda n, m: [randn(n)],
        """
        low = 0.25
        out = torch.zeros_like(x)
        for i in range(len(x)):
            if x[i].item() < low:
                low = x[i].item()
            out[i] = low
        return out
        """,
        "out = torch.where(x < 0.25, x, 0.25).cummin(0).values.detach()",
    ),
    "so far in every column, from the end, under a condition": (
        "x, y",
        lambda n, m: [randn(n, m), randn(n, m)],
        """
        out = torch.zeros_like(x)
        for j in range(x.shape[1]):
            m = -float('inf')
            for i in reversed(range(x.shape[0])):
                if y[i, j] > 0 and x[i, j] > m:
                    m = x[i, j]
                out[i, j] = m
        return out
        """,
        (
            "candidates = torch.where((y.T > 0) & (x.T > float('-inf')), x.T, float('-inf')).flip(1)\n"
            "highest, place = candidates.cummax(1)\n"
            "place[:, 1:] *= highest[:, 1:] > highest[:, :-1]\n"
            "out[...] = candidates.gather(1, place.cummax(1).values).flip(1).T"
        ),
    ),
    "so far in the elements": (
        "x",
        lambda n, m: [randn(n)],
        """
        out = torch.zeros_like(x)
        out[0] = x[0]
        for i in range(1, len(x)):
            out[i] = max(out[i - 1], x[i])
        return out
        """,
        (
            "highest, place = x.cummax(0)\n"
            "if not torch.equal(highest[1:] > highest[:-1], place[1:] != place[:-1]):  # equal ones, or NaN\n"
            "candidates = torch.where(x > out[0], x, out[0])\n"
            "highest, place = candidates.cummax(0)\n"
            "place[1:] *= highest[1:] > highest[:-1]\n"
            "highest = candidates.gather(0, place.cummax(0).values)\n"
            "out[1:] = highest[1:]"
        ),
    ),
    "so far, and the largest fall from it": (
        "x",
        lambda n, m: [rand(n) + 1],
        """
        peak = x[0]
        worst = 0.0
        for p in x:
            if p > peak:
                peak = p
            if peak - p > worst:
                worst = peak - p
        return worst
        """,
        (
            "highest, place = x.cummax(0)\n"
            "if not torch.equal(highest[1:] > highest[:-1], place[1:] != place[:-1]):  # equal ones, or NaN\n"
            "candidates = torch.where(x > peak, x, peak)\n"
            "highest, place = candidates.cummax(0)\n"
            "place[1:] *= highest[1:] > highest[:-1]\n"
            "highest = candidates.gather(0, place.cummax(0).values)\n"
            "terms = torch.nn.functional.pad(torch.where(highest - x > 0.0, highest - x, 0.0), (1, 0), value=0.0)\n"
            "worst = terms.max(0).values"
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_form_comes_out_that_does_what_the_loop_does_at_all_inputs(name):
    *case, expected = CASES[name]
    text, proposals = forms(*case)
    careful = proposals[-1]
    assert not careful.unsafe
    assert added_lines(careful) == expected
    assert_everywhere_the_same(text, careful.new_text, case[1])


# name -> (signature, inputs for n and m, the function's body, why not)
DECLINED = {
    "the place of the last of equal ones": (
        "x",
        lambda n, m: [randn(n)],
        """
        best = 0.0
        at = -1
        for i in range(len(x)):
            if x[i] >= best:
                best = x[i]
                at = i
        return at
        """,
        "the last of equal ones wins",
    ),
    "the place of the best so far": (
        "x",
        lambda n, m: [randn(n)],
        """
        best, at = 0.0, -1
        out = torch.zeros(len(x), dtype=torch.long)
        for i in range(len(x)):
            if x[i] > best:
                best = x[i]
                at = i
            out[i] = at
        return out
        """,
        "keeps something else in every iteration",
    ),
    "a best that shrinks": (
        "x",
        lambda n, m: [randn(n)],
        """
        m = x[0]
        out = torch.zeros_like(x)
        for i in range(len(x)):
            m = max(0.9 * m, x[i])
            out[i] = m
        return out
        """,
        "its own value of the iteration before",
    ),
    "read before it is compared": (
        "x",
        lambda n, m: [randn(n)],
        """
        m = 0.0
        out = torch.zeros_like(x)
        for i in range(len(x)):
            out[i] = x[i] - m
            m = max(m, x[i])
        return out
        """,
        "read before it is compared",
    ),
    "one best for all rows, kept on the way": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        m = 0.0
        out = torch.zeros_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                m = max(m, x[i, j])
                out[i, j] = m
        return out
        """,
        "goes on from one iteration",
    ),
    "the best so far, and the last of them": (
        "x",
        lambda n, m: [randn(n)],
        """
        m = 0.0
        rows = []
        for v in x:
            m = max(m, v)
            rows.append(m)
        return torch.stack(rows), m
        """,
        "m is read after the loop",
    ),
    "a tensor that goes on as a number": (
        "x",
        lambda n, m: [randn(n)],
        """
        m = x[0]
        out = torch.zeros_like(x)
        for i in range(len(x)):
            m = max(m, x[i].item())
            out[i] = m
        return out
        """,
        "begins as a tensor, and goes on as a number",
    ),
    "a start that the text does not show": (
        "x, start",
        lambda n, m: [randn(n), [0.5]],
        """
        best = start
        for i in range(len(x)):
            if x[i] > best[0]:
                best = [x[i]]
        return best[0]
        """,
        "needs best.0., written by an earlier iteration",
    ),
}


@pytest.mark.parametrize("name", DECLINED)
def test_what_has_no_such_form_is_declined(name):
    *case, reason = DECLINED[name]
    with pytest.raises(DeclinedError, match=reason):
        forms(*case)


def test_where_torch_treats_ties_or_nan_in_another_way_the_form_says_so():
    body = """
    best = y
    for v in x:
        best = torch.maximum(best, v)
    return best
    """
    text, proposals = forms("x, y", lambda n, m: [randn(n, m), randn(m)], body)
    assert added_lines(proposals[0]) == "best = torch.cat((best[None], x)).amax(0)"
    assert "three or more are equal" in proposals[0].unsafe
    assert_same(text, proposals[0].new_text, [torch.arange(12.0).view(4, 3), randn(3)])
