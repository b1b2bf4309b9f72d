"""The array code does what the loop did, on every snippet that is taken; what could go wrong is not taken."""

import textwrap

import pytest
import torch

from gradwright.doctor.rewrite import propose
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.place import Location

HEAD = "import math\nimport torch\nimport torch.nn.functional as F\n\n\n"


def found_at(line, path="net.py", name="python-loop-over-elements"):
    return Finding("GW301", name, "speed", "warning", "f", Location(path, line), "slow", "why")


def source_of(body, signature="x, g, v, w, alpha"):
    return HEAD + f"def f({signature}):\n" + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"


def first_loop(text):
    return next(number for number, line in enumerate(text.split("\n"), 1) if line.strip().startswith("for "))


def rewritten(text, line=None):
    proposals = propose(found_at(line or first_loop(text)), (), text)
    assert len(proposals) <= 1
    return proposals[0] if proposals else None


def called(text, seed, shape=(4, 3)):
    n, m = shape
    generator = torch.Generator().manual_seed(seed)

    def draw(*size):
        drawn = torch.randn(*size, generator=generator)
        return drawn.round() if seed == 2 else drawn

    namespace = {}
    exec(compile(text, "net.py", "exec"), namespace)
    if "three" in text:
        return namespace["f"](draw(n, m, 2), draw(n, m, 2), draw(m, 2), draw(n, 2), 0.7)
    if "flat" in text:
        return namespace["f"](draw(n), draw(n), draw(n), draw(n), 0.7)
    return namespace["f"](draw(n, m), draw(n, m), draw(m), draw(n), 0.7)


# name -> (the function's body, what the array code reads)
TAKEN = {
    "square": (
        """
        y = torch.zeros_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                y[i, j] = x[i, j] ** 2
        return y
        """,
        "y = x ** 2",
    ),
    "other names, sizes unpacked first": (
        """
        rows, columns = x.shape
        result = torch.empty_like(x)
        for row in range(rows):
            for column in range(columns):
                result[row, column] = x[row, column] * g[row, column] + alpha
        return result
        """,
        "result = x * g + alpha",
    ),
    "size() and chained indices": (
        """
        n, m = x.size()
        y = torch.zeros_like(x)
        for i in range(n):
            for j in range(m):
                y[i][j] = 2 * x[i][j] * g[i][j]
        return y
        """,
        "y = 2 * x * g",
    ),
    "sizes one by one": (
        """
        n = x.size(0)
        m = len(x[0]) * 0 + x.shape[1]
        y = torch.zeros_like(x)
        for i in range(n):
            for j in range(x.size(1)):
                y[i, j] = -x[i, j]
        return y
        """,
        "y = -x",
    ),
    "sizes assigned together": (
        """
        n, m = x.shape[0], x.shape[1]
        y = torch.zeros_like(x)
        for i in range(n):
            for j in range(0, m):
                y[i, j] = x[i, j] / 4
        return y
        """,
        "y = x / 4",
    ),
    "one axis, len": (
        """
        flat = x
        y = torch.zeros_like(flat)
        for i in range(len(flat)):
            y[i] = flat[i] * g[i]
        return y
        """,
        "y = flat * g",
    ),
    "one axis, numel, item": (
        """
        flat = x.contiguous()
        y = torch.zeros_like(flat)
        for k in range(flat.numel()):
            y[k] = flat[k].item() * 3 + g[k].item()
        return y
        """,
        "y = flat * 3 + g",
    ),
    "rows": (
        """
        y = torch.zeros_like(x)
        for i in range(x.shape[0]):
            y[i] = x[i] * v + alpha
        return y
        """,
        "y = x * v + alpha",
    ),
    "three axes": (
        """
        three = x
        y = torch.zeros_like(three)
        for i in range(three.shape[0]):
            for j in range(three.shape[1]):
                for k in range(three.shape[2]):
                    y[i, j, k] = three[i, j, k] * v[j, k] + w[i, k]
        return y
        """,
        "y = three * v + w[:, None]",
    ),
    "vectors along either axis": (
        """
        y = torch.zeros_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                y[i, j] = (x[i, j] - w[i]) * v[j]
        return y
        """,
        "y = (x - w[:, None]) * v",
    ),
    "outer product has no tensor that gives it its shape": (
        """
        y = torch.zeros_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                y[i, j] = w[i] * v[j]
        return y
        """,
        "y[...] = w[:, None] * v",
    ),
    "functions of torch": (
        """
        y = torch.zeros_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                y[i, j] = torch.exp(-x[i, j]) + torch.sigmoid(x[i, j]) * x[i, j].tanh()
        return y
        """,
        "y = torch.exp(-x) + torch.sigmoid(x) * x.tanh()",
    ),
    "functions of math": (
        """
        y = torch.zeros_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                y[i, j] = math.sin(x[i, j].item()) * abs(g[i, j])
        return y
        """,
        "y = torch.sin(x) * abs(g)",
    ),
    "functional": (
        """
        y = torch.zeros_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                y[i, j] = F.softplus(x[i, j]) + torch.maximum(x[i, j], g[i, j])
        return y
        """,
        "y = F.softplus(x) + torch.maximum(x, g)",
    ),
    "a scalar that names one element": (
        """
        y = torch.zeros_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                value = x[i, j].item()
                y[i, j] = value * value * g[i, j]
        return y
        """,
        "y = x * x * g",
    ),
    "a scalar that is computed": (
        """
        y = torch.zeros_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                t = torch.tanh(x[i, j])
                y[i, j] = (1 - t * t) * g[i, j]
        return y
        """,
        "t = torch.tanh(x)\ny = (1 - t * t) * g",
    ),
    "a scalar that renames a computed one": (
        """
        y = torch.zeros_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                t = x[i, j] * 2
                u = t
                t = t + g[i, j]
                y[i, j] = u * t
        return y
        """,
        "t = x * 2\nu = t\nt = t + g\ny = u * t",
    ),
    "a scalar of the outer loop": (
        """
        y = torch.zeros_like(x)
        for i in range(x.shape[0]):
            scale = w[i] * alpha
            for j in range(x.shape[1]):
                y[i, j] = scale * x[i, j]
        return y
        """,
        "scale = w[:, None] * alpha\ny = scale * x",
    ),
    "added in place": (
        """
        y = x.clone()
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                y[i, j] += 2 * g[i, j]
        return y
        """,
        "y += 2 * g",
    ),
    "written, then multiplied": (
        """
        y = torch.zeros_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                y[i, j] = x[i, j] + 1
                y[i, j] *= g[i, j] - 2
        return y
        """,
        "y = x + 1\ny = y * (g - 2)",
    ),
    "its own element read": (
        """
        y = g.clone()
        for i in range(g.shape[0]):
            for j in range(g.shape[1]):
                y[i, j] = y[i, j] * x[i, j]
        return y
        """,
        "y[...] = y * x",
    ),
    "a copy is a copy": (
        """
        y = torch.zeros_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                y[i, j] = x[i, j]
        return y
        """,
        "y = x.clone()",
    ),
    "if and else": (
        """
        y = torch.zeros_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                if x[i, j] > 0:
                    y[i, j] = x[i, j]
                else:
                    y[i, j] = alpha * x[i, j]
        return y
        """,
        "y = torch.where(x > 0, x, alpha * x)",
    ),
    "if alone keeps the zeros": (
        """
        y = torch.zeros_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                if x[i, j] >= 0:
                    y[i, j] = g[i, j] * x[i, j]
        return y
        """,
        "y = torch.where(x >= 0, g * x, 0)",
    ),
    "if alone on a copy": (
        """
        y = x.clone()
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                if g[i, j] < 0:
                    y[i, j] = 2 * g[i, j]
        return y
        """,
        "y[...] = torch.where(g < 0, 2 * g, y)",
    ),
    "elif, and, not": (
        """
        y = torch.zeros_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                if x[i, j] > 0 and not g[i, j] > 0:
                    y[i, j] = x[i, j]
                elif x[i, j] < -1:
                    y[i, j] = -1.0
                else:
                    y[i, j] = g[i, j] * 2
        return y
        """,
        "y = torch.where((x > 0) & ~(g > 0), x, torch.where(x < -1, -1.0, g * 2))",
    ),
    "a conditional expression": (
        """
        y = torch.zeros_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                y[i, j] = g[i, j] if abs(x[i, j]) <= 1 else 0.0
        return y
        """,
        "y[...] = torch.where(abs(x) <= 1, g, 0.0)",
    ),
    "a comparison as a number": (
        """
        y = torch.zeros_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                y[i, j] = x[i, j] > 0
        return y
        """,
        "y[...] = x > 0",
    ),
    "a constant": (
        """
        y = torch.zeros_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                y[i, j] = 3.0
        return y
        """,
        "y[...] = 3.0",
    ),
    "default dtype stays": (
        """
        n, m = x.shape
        y = torch.zeros(n, m)
        for i in range(n):
            for j in range(m):
                y[i, j] = x[i, j] * 2
        return y
        """,
        "y[...] = x * 2",
    ),
    "dtype taken over": (
        """
        y = torch.zeros(x.shape, dtype=x.dtype, device=x.device)
        z = x.new_empty(x.size(0), x.size(1))
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                y[i, j] = x[i, j] * 2
                z[i, j] = x[i, j] * 3
        return y + z
        """,
        "y = x * 2\nz = x * 3",
    ),
    "only part of the target": (
        """
        y = torch.ones(10, 10)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                y[i, j] = x[i, j] * 2
        return y
        """,
        "y[:x.shape[0], :x.shape[1]] = x * 2",
    ),
    "only the first two rows": (
        """
        y = torch.zeros_like(x)
        for i in range(2):
            for j in range(x.shape[1]):
                y[i, j] = x[i, j] * w[i] * v[j]
        return y
        """,
        "y[:2] = x[:2] * w[:2, None] * v",
    ),
    "lengths of another tensor": (
        """
        y = torch.zeros_like(x)
        for i in range(g.shape[0]):
            for j in range(g.shape[1]):
                y[i, j] = x[i, j] + g[i, j]
        return y
        """,
        "y[:g.shape[0], :g.shape[1]] = x[:g.shape[0], :g.shape[1]] + g",
    ),
    "two results": (
        """
        a = torch.zeros_like(x)
        b = torch.zeros_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                a[i, j] = x[i, j] * 2
                b[i, j] = a[i, j] + x[i, j]
        return a, b
        """,
        "a = x * 2\nb = a + x",
    ),
    "a rebound input": (
        """
        x = x.contiguous()
        y = torch.zeros_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                y[i, j] = x[i, j] * g[i, j]
        return y
        """,
        "y = x * g",
    ),
    "divided by the number of elements": (
        """
        y = torch.zeros_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                y[i, j] = 2 * x[i, j] / x.numel() + x.shape[0]
        return y
        """,
        "y = 2 * x / x.numel() + x.shape[0]",
    ),
    "inside a nested function": (
        """
        def work(a, b):
            out = torch.zeros_like(a)
            for i in range(a.shape[0]):
                for j in range(a.shape[1]):
                    out[i, j] = a[i, j] * b[i, j]
            return out
        return work(x, g)
        """,
        "out = a * b",
    ),
    "the inner loops of an outer one that repeats": (
        """
        total = 0
        for epoch in range(3):
            y = torch.zeros_like(x)
            for i in range(x.shape[0]):
                for j in range(x.shape[1]):
                    y[i, j] = x[i, j] * 2
            total = total + y * epoch
        return total
        """,
        "y = x * 2",
    ),
    "len of a row": (
        """
        y = torch.zeros_like(x)
        for i in range(len(x)):
            for j in range(len(x[i])):
                y[i, j] = x[i, j] * 2
        return y
        """,
        "y = x * 2",
    ),
    "a copy that is overwritten": (
        """
        y = g.clone()
        for i in range(len(g)):
            for j in range(len(g[0])):
                y[i, j] = x[i, j] * g[i, j]
        return y
        """,
        "y = x * g",
    ),
    "an expression over two lines": (
        """
        y = torch.zeros_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                y[i, j] = (x[i, j]
                           + g[i, j])
        return y
        """,
        "y = x + g",
    ),
}


@pytest.mark.parametrize("name", TAKEN)
def test_array_code_equals_the_loop(name):
    body, expected = TAKEN[name]
    text = source_of(body)
    line = next(n for n, code in enumerate(text.split("\n"), 1) if "] = " in code or "] += " in code)
    proposal = rewritten(text, line if "inner loops" in name else None)
    assert proposal is not None
    added = [one[1:].strip() for one in proposal.diff.split("\n") if one.startswith("+") and not one.startswith("+++")]
    assert "\n".join(added) == expected
    for seed, shape in ((0, (4, 3)), (1, (3, 4)), (2, (5, 5)), (3, (2, 1))):
        before, after = called(text, seed, shape), called(proposal.new_text, seed, shape)
        torch.testing.assert_close(after, before, rtol=1e-6, atol=1e-6)


NESTED = "for i in range(x.shape[0]):\n    for j in range(x.shape[1]):\n        "

DECLINED = {
    "carried along a row": "y = torch.zeros_like(x)\nfor i in range(1):\n    for j in range(x.shape[1]):\n"
    "        y[i, j] = y[i, j - 1] + x[i, j]\nreturn y",
    "a running sum": "y = torch.zeros_like(x)\ns = 0.0\n" + NESTED + "s = s + x[i, j]\n        y[i, j] = s\nreturn y",
    "an in-place running sum": "y = torch.zeros_like(x)\ns = 0.0\n"
    + NESTED
    + "s += x[i, j]\n        y[i, j] = s\nreturn y",
    "the element before": "y = torch.zeros_like(x)\nprev = 0.0\n"
    + NESTED
    + "y[i, j] = prev * 2\n        prev = x[i, j]\nreturn y",
    "a shifted read": "y = torch.zeros_like(x)\n" + NESTED + "y[i, j] = x[i - 1, j]\nreturn y",
    "a shifted write": "y = torch.zeros_like(x)\n" + NESTED + "y[i - 1, j] = x[i, j]\nreturn y",
    "a transposed read": "y = torch.zeros_like(x)\n" + NESTED + "y[i, j] = x[j, i]\nreturn y",
    "a transposed write": "y = torch.zeros_like(x)\n" + NESTED + "y[j, i] = x[i, j]\nreturn y",
    "a diagonal": "y = torch.zeros_like(x)\n" + NESTED + "y[i, i] = x[i, j]\nreturn y",
    "a constant index": "y = torch.zeros_like(x)\n" + NESTED + "y[i, j] = x[i, 0]\nreturn y",
    "a reduction": "y = torch.zeros(3)\n" + NESTED + "y[j] += x[i, j]\nreturn y",
    "an index from data": "y = torch.zeros_like(x)\n" + NESTED + "y[i, j] = v[int(x[i, j])]\nreturn y",
    "a range with a step": "y = torch.zeros_like(x)\nfor i in range(0, x.shape[0], 2):\n    y[i] = x[i]\nreturn y",
    "a range from 1": "y = torch.zeros_like(x)\nfor i in range(1, x.shape[0]):\n    y[i] = x[i]\nreturn y",
    "a triangle": "y = torch.zeros_like(x)\nfor i in range(x.shape[0]):\n    for j in range(i):\n"
    "        y[i, j] = x[i, j]\nreturn y",
    "an end that may be negative": "y = torch.zeros_like(x)\n"
    "for i in range(x.shape[0] - 9):\n    y[i] = x[i]\nreturn y",
    "continue": "y = torch.zeros_like(x)\n"
    + NESTED
    + "if x[i, j] > 0:\n            continue\n        y[i, j] = 1\nreturn y",
    "break": "y = torch.zeros_like(x)\n" + NESTED + "if x[i, j] > 0:\n            break\n        y[i, j] = 1\nreturn y",
    "a loop with else": "y = torch.zeros_like(x)\n"
    "for i in range(x.shape[0]):\n    y[i] = x[i]\nelse:\n    y += 1\nreturn y",
    "a print": "y = torch.zeros_like(x)\n" + NESTED + "print(i)\n        y[i, j] = x[i, j]\nreturn y",
    "an append": "y = []\n" + NESTED + "y.append(x[i, j])\nreturn y",
    "a user's function": "y = torch.zeros_like(x)\n" + NESTED + "y[i, j] = h(x[i, j])\nreturn y",
    "Python's max and its ties": "y = torch.zeros_like(x)\n" + NESTED + "y[i, j] = max(x[i, j], g[i, j])\nreturn y",
    "random numbers": "y = torch.zeros_like(x)\n" + NESTED + "y[i, j] = x[i, j] * torch.rand(())\nreturn y",
    "the index as a number": "y = torch.zeros_like(x)\n" + NESTED + "y[i, j] = x[i, j] * i\nreturn y",
    "an input written": NESTED + "x[i, j] = x[i, j] * 2\nreturn x",
    "an alias written": "y = x\n" + NESTED + "y[i, j] = x[i, j] * 2\nreturn y",
    "a view of the target": "y = torch.zeros_like(x)\nz = y.flip(0)\n" + NESTED + "y[i, j] = z[i, j] + 1\nreturn y",
    "a row of the target": "y = x.clone()\nr = y[0]\n" + NESTED + "y[i, j] = r[j] + 1\nreturn y",
    "a broadcast of the target": "y = torch.ones(9)\n" + NESTED + "y[i, j] = y[j]\nreturn y",
    "the whole target read": "y = torch.ones_like(x)\n" + NESTED + "y[i, j] = y.sum() + x[i, j]\nreturn y",
    "a domain in a branch": "y = torch.zeros_like(x)\n"
    + NESTED
    + "if x[i, j] > 0:\n            y[i, j] = torch.sqrt(x[i, j])\n        else:\n            y[i, j] = 0\nreturn y",
    "a quotient in a branch": "y = torch.zeros_like(x)\n"
    + NESTED
    + "y[i, j] = g[i, j] / x[i, j] if x[i, j] != 0 else 0.0\nreturn y",
    "a logarithm in a branch": "y = torch.zeros_like(x)\n"
    + NESTED
    + "t = torch.log(x[i, j])\n        if x[i, j] > 0:\n            y[i, j] = t\nreturn y",
    "branches to two targets": "y = torch.zeros_like(x)\nz = torch.zeros_like(x)\n"
    + NESTED
    + "if x[i, j] > 0:\n            y[i, j] = 1\n        else:\n            z[i, j] = 1\nreturn y",
    "two comparisons added": "y = torch.zeros_like(x)\n" + NESTED + "y[i, j] = (x[i, j] > 0) + (g[i, j] > 0)\nreturn y",
    "a chained comparison": "y = torch.zeros_like(x)\n"
    + NESTED
    + "y[i, j] = 1.0 if 0 < x[i, j] < 1 else 0.0\nreturn y",
    "a scalar read after the loop": "y = torch.zeros_like(x)\n"
    + NESTED
    + "t = x[i, j] * 2\n        y[i, j] = t\nreturn y + t",
    "the loop variable read after the loop": "y = torch.zeros_like(x)\n" + NESTED + "y[i, j] = x[i, j]\nreturn y + i",
    "a scalar changed in place": "y = torch.zeros_like(x)\n"
    + NESTED
    + "t = x[i, j]\n        t += 1\n        y[i, j] = t\nreturn y",
    "floor division": "y = torch.zeros_like(x)\n" + NESTED + "y[i, j] = x[i, j] // 2\nreturn y",
    "a while loop inside": "y = torch.zeros_like(x)\n"
    + NESTED
    + "while y[i, j] < 3:\n            y[i, j] += 1\nreturn y",
    "statements after the inner loop": "y = torch.zeros_like(x)\n"
    "for i in range(x.shape[0]):\n    for j in range(x.shape[1]):\n        y[i, j] = y[i, j] + x[i, j]\n"
    "    y[i] = y[i] * 2\nreturn y",
    "a target that someone keeps": "y = torch.zeros_like(x)\nkept = [y]\n"
    + NESTED
    + "y[i, j] = kept[0].sum()\nreturn y",
    "a shadowed range": "range = reversed\ny = torch.zeros_like(x)\n" + NESTED + "y[i, j] = x[i, j]\nreturn y",
    "a shadowed abs": "abs = h\ny = torch.zeros_like(x)\n" + NESTED + "y[i, j] = abs(x[i, j])\nreturn y",
}


@pytest.mark.parametrize("name", DECLINED)
def test_what_array_code_could_get_wrong_is_declined(name):
    assert rewritten(source_of(DECLINED[name])) is None


def test_of_two_loops_over_one_target_only_the_first_is_replaced():
    body = """
    y = torch.zeros_like(x)
    for i in range(x.shape[0]):
        y[i] = x[i] * 2
    for i in range(x.shape[0]):
        y[i] = y[i] + x[i]
    return y
    """
    text = source_of(body)
    proposal = rewritten(text)
    assert proposal is not None and proposal.new_text.count("for ") == 1
    torch.testing.assert_close(called(proposal.new_text, 0), called(text, 0))


FUNCTION = HEAD + (
    "class Square(torch.autograd.Function):\n"
    "    @staticmethod\n"
    "    def forward(ctx, x):\n"
    "        ctx.save_for_backward(x)\n"
    "        y = torch.zeros_like(x)\n"
    "        for i in range(x.shape[0]):\n"
    "            for j in range(x.shape[1]):\n"
    "                y[i, j] = x[i, j] ** 2\n"
    "        return y\n"
    "\n"
    "    @staticmethod\n"
    "    def backward(ctx, cotangent):\n"
    "        x, = ctx.saved_tensors\n"
    "        # the derivative\n"
    "        result = torch.zeros_like(x)   # one entry each\n"
    "\n"
    "        for i in range(cotangent.shape[0]):  # rows\n"
    "            for j in range(cotangent.shape[1]):\n"
    "                # d(x**2) = 2x dx\n"
    "                result[i, j] = 2*x[i, j] * cotangent[i, j]  # chain rule\n"
    "        # done\n"
    "        return result   # as it is\n"
)


def test_lengths_of_the_cotangent_are_those_that_forward_returned():
    proposal = rewritten(FUNCTION, 23)
    assert proposal is not None
    assert (
        "        # rows\n        # d(x**2) = 2x dx\n        result = 2*x * cotangent  # chain rule\n"
        in proposal.new_text
    )
    assert (proposal.class_name, proposal.function) == ("Square", "backward")
    assert "        return y\n" in proposal.new_text and "y[i, j] = x[i, j] ** 2" in proposal.new_text


def test_only_the_loop_at_the_finding_changes():
    forward, backward = rewritten(FUNCTION, 12), rewritten(FUNCTION, 25)
    assert forward is not None and backward is not None
    assert forward.function == "forward" and "result[i, j]" in forward.new_text
    assert backward.function == "backward" and "y[i, j]" in backward.new_text


@pytest.mark.parametrize("newline", ["\r\n", "\n", "\r"])
def test_newlines_tabs_and_the_byte_order_mark_survive(newline):
    text = "\ufeff# -*- coding: latin-1 -*-\n" + FUNCTION.replace("    ", "\t") + "name = 'é\x0c'\n"
    text = text.replace("\n", newline)
    proposal = rewritten(text, 24)
    assert proposal is not None
    new = proposal.new_text
    assert new.startswith("\ufeff# -*- coding: latin-1 -*-" + newline) and new.endswith("name = 'é\x0c'" + newline)
    assert new.replace(newline, "").count("\n") == 0 or newline == "\r"
    kept = [line for line in text.split(newline) if line in new.split(newline)]
    assert len(kept) >= len(text.split(newline)) - 5
    assert f"\t\tresult = 2*x * cotangent  # chain rule{newline}" in new


def test_a_file_without_a_last_newline_keeps_it_that_way():
    text = source_of("y = torch.zeros_like(x)\nfor i in range(x.shape[0]):\n    y[i] = x[i] * 2").rstrip("\n")
    proposal = rewritten(text)
    assert proposal is not None and proposal.new_text.endswith("y = x * 2")
    assert "\\ No newline at end of file" in proposal.diff


def test_the_diff_has_the_finding_s_path_and_applies(tmp_path):
    proposal = propose(found_at(23, "pkg/net.py"), (), FUNCTION)[0]
    assert proposal.diff.startswith("--- pkg/net.py\n+++ pkg/net.py\n@@ ")
    assert proposal.path == "pkg/net.py"
    changed = proposal.new_text.split("\n")
    assert any("result = 2*x * cotangent" in changed[line - 1] for line in proposal.changed)


def test_a_loop_in_a_file_that_is_not_python_is_declined():
    assert propose(found_at(1), (), "for i in range(3)\n") == ()


def test_a_rule_without_a_rewrite_proposes_nothing():
    assert propose(found_at(12, name="zero-grad-missing"), (), FUNCTION) == ()
