"""Dicts filled key by key, and lists of numbers that are written into."""

import pytest
import torch
from tests.doctor.rewrite.loops.rewriting import assert_rewritten, rewritten, source_of
from torch import randint, randn

from gradwright.doctor.rewrite.source_text import DeclinedError

# name -> (signature, inputs for n and m, the function's body, what comes out)
CASES = {
    "numbers by their place": (
        "x",
        lambda n, m: [randn(n)],
        """
        d = {}
        for i in range(len(x)):
            d[i] = x[i].item() * 2
        return list(d), list(d.values())
        """,
        "d = dict(enumerate((x.double() * 2).tolist()))",
    ),
    "by the items of a list, into what is there already": (
        "x, names, d",
        lambda n, m: [randn(4), [3, 1, 3], {1: 0.5, 7: 2.5}],
        """
        for i, name in enumerate(names):
            d[name] = x[i].item()
        return list(d), list(d.values())
        """,
        "d.update(zip(names, x[:len(names)].tolist()))",
    ),
    "by numbers out of a tensor, some of them twice": (
        "x, t",
        lambda n, m: [randn(n), randint(0, 3, (n,))],
        """
        d = dict()
        for a, b in zip(x, t):
            d[b.item()] = a.item()
        return list(d), list(d.values())
        """,
        "n = min(len(x), len(t))\nd = dict(zip(t[:n].tolist(), x[:n].tolist()))",
    ),
    "under a condition, backwards": (
        "x",
        lambda n, m: [randn(n)],
        """
        d = {}
        for i in range(len(x) - 1, -1, -1):
            if x[i] > 0:
                d[i + 1] = x[i].item()
        return list(d), list(d.values())
        """,
        (
            "part = zip((torch.arange(len(x)) + 1).flip(0)[(x > 0).flip(0)].tolist(), "
            "x.flip(0)[(x > 0).flip(0)].tolist())\nd = dict(part)"
        ),
    ),
    "rows": (
        "x",
        lambda n, m: [randn(n, m)],
        """
        d = {}
        for i in range(1, len(x)):
            d[i] = x[i] * 2
        return list(d), *d.values()
        """,
        "d = dict(enumerate(x[1:] * 2, 1))",
    ),
    "counts": (
        "t, k",
        lambda n, m: [randint(0, 3, (n,)), 3],
        """
        counts = [0] * k
        for i in range(len(t)):
            counts[t[i].item()] += 1
        return counts
        """,
        "counts = t.bincount(minlength=k).tolist()",
    ),
    "counts of a list's numbers, over two loops": (
        "t",
        lambda n, m: [randint(0, 3, (n, m))],
        """
        counts = [0 for _ in range(3)]
        for i in range(t.shape[0]):
            for j in range(t.shape[1]):
                counts[int(t[i, j])] += 1
        return torch.tensor(counts)
        """,
        "counts = t.flatten().bincount(minlength=3).tolist()",
    ),
    "counts of a tensor's numbers": (
        "t",
        lambda n, m: [randint(0, 3, (n,))],
        """
        counts = [0] * 3
        for v in t.tolist():
            counts[v] += 1
        return counts
        """,
        "counts = t.bincount(minlength=3).tolist()",
    ),
    "sums by label": (
        "t, x",
        lambda n, m: [randint(0, 3, (n,)), randn(n)],
        """
        sums = [0.0] * 3
        for i in range(len(t)):
            sums[t[i]] += x[i].item() / 3
        return sums
        """,
        ("sums = torch.zeros(3, dtype=torch.float64).index_add(0, t, (x.double() / 3).detach()).tolist()"),
    ),
    "counts as floats, under a condition": (
        "t, p",
        lambda n, m: [randint(0, 3, (n,)), randint(0, 3, (n,))],
        """
        hits = [0.0] * 3
        for i in range(len(t)):
            label = t[i].item()
            if p[i].item() == label:
                hits[label] += 1
        return hits
        """,
        "hits = t[p[:len(t)] == t].bincount(minlength=3).double().tolist()",
    ),
    "every item of a list": (
        "x",
        lambda n, m: [randn(n)],
        """
        out = [0.0] * len(x)
        for i in range(len(x)):
            out[i] = x[i].item() * 2
        return out
        """,
        "out = (x.double() * 2).tolist()",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_array_code_comes_out_and_does_what_the_loop_did(name):
    assert_rewritten(*CASES[name])


DECLINED = {
    "keys that are texts made in the loop": (
        "d = {}\nfor i in range(len(x)):\n    d[f'row {i}'] = x[i].item()\nreturn d",
        "has no form for whole tensors",
    ),
    "texts as keys, under a condition": (
        "n = [*'abcd']\nd = {}\nfor i in range(len(x)):\n    if x[i] > 0:\n        d[n[i]] = x[i].item()\nreturn d",
        "whose elements the loop reads, is a list",
    ),
    "tensors as keys": (
        "d = {}\nfor i in range(len(x)):\n    d[t[i]] = x[i].item()\nreturn d",
        "whose keys are no numbers",
    ),
    "a dict that is read while it is filled": (
        "d = {0: 1.0}\nfor i in range(1, len(x)):\n    d[i] = d[i - 1] + x[i].item()\nreturn d",
        "written by an earlier iteration",
    ),
    "some items of a list": (
        "out = [0.0] * len(x)\nfor i in range(1, len(x)):\n    out[i] = x[i].item()\nreturn out",
        "is not written whole",
    ),
    "a list with a second name": (
        "out = [0] * 3\nother = out\nfor v in t:\n    out[v.item()] += 1\nreturn other",
        "whose making the text does not show",
    ),
    "integers that become floats": (
        "out = [0] * 3\nfor i in range(len(t)):\n    out[t[i].item()] += x[i].item()\nreturn out",
        "another kind",
    ),
    "a copy that is walked over while the tensor changes": (
        "s = 0\nfor v in t.tolist():\n    t[0] = 5\n    s += v\nreturn s",
        "is written while it runs",
    ),
}


@pytest.mark.parametrize("name", DECLINED)
def test_what_array_code_could_get_wrong_is_declined(name):
    body, reason = DECLINED[name]
    with pytest.raises(DeclinedError, match=reason):
        rewritten(source_of(body, "x, t"), [torch.ones(4), torch.tensor([0, 2, 1, 2])])
